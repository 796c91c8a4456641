"""What a report says of a run, by its kind of failure. Its words are in tests/goldens/reports."""

import json
from dataclasses import replace
from importlib.metadata import version

import pytest
from case_samples import graph, meta, output, small_case
from outcomes import outcome, summed_up, text_of, verified

from minifier.data.case import Drawn, Level, Symbolic, TensorInput
from minifier.data.case.serial import pack, unpack
from minifier.data.failure import Aspect, Difference, ElementPair, Failure, Fingerprint, Frame, Kind, Stage
from minifier.reduction.summary import OtherFailure, Summary
from minifier.repro.emit.repro import Repro
from minifier.repro.report.failure_text import cut, duplicates, title_of
from minifier.repro.report.outcome import duplicate_key, result_data
from minifier.repro.report.privacy import shareable_case, without_private_paths, without_source

WRONG = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values")


def test_elements_of_a_wrong_result_are_shown_unless_they_may_be_the_users_data(tmp_path):
    elements = (ElementPair((0, 3), "1.5", "1.4999999", 1.0),)
    difference = Difference(Aspect.VALUES, "output 0", "output 0 is off", 0.02, 1e-8, 2e-8, elements=elements)
    given = outcome(Failure(WRONG, "wrong-result", "off", differences=(difference,)))
    assert "1.4999999" in text_of(given)
    for repro in (None, Repro("import torch\n", None, tmp_path / "values")):
        assert "1.4999999" not in text_of(replace(given, repro=repro))
    case = shareable_case(json.dumps(pack(given.case)), "", str)
    assert "output 0" in case and "1.4999999" not in case


def test_packages_of_the_user_are_packages(monkeypatch):
    """`pip install --user` has a folder of its own for them."""
    folder = "/home/me/.local/lib/python3.11/site-packages"
    monkeypatch.syspath_prepend(folder)
    frame = f'  File "{folder}/torch/fx.py", line 1, in run\n    go()'
    assert without_private_paths(without_source(frame)) == frame.replace(folder, "<site-packages>")


def test_the_versions_of_what_failed_are_there_without_a_repro():
    failure = small_case().failure
    place = Frame("rich.console", "render")
    failure = replace(failure, fingerprint=replace(failure.fingerprint, raising=place, types=("click.ClickException",)))
    text = text_of(replace(outcome(failure), verification=None))
    assert all(f"{name} {version(name)}" in text for name in ("click", "rich"))


@pytest.mark.parametrize("stage", Stage)
def test_every_failure_has_a_sentence_and_a_title(stage):
    for kind in Kind:
        given = outcome(Failure(Fingerprint(stage, kind, ("E",), message="mine"), "E", "mine"), rate=0.3)
        sentence = text_of(given).partition("## Describe the bug\n\n")[2].splitlines()[0]
        assert "mine" in sentence and "None" not in sentence and "30%" in text_of(given)
        assert title_of(given.minimal).startswith("[oddlib_tanh] ")
    for aspect in Aspect:
        failure = Failure(replace(WRONG, message=aspect.value), "wrong-result", "off")
        assert "torch.tanh" in title_of(outcome(failure).minimal)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (Kind.SIGNAL, {"inputs": (TensorInput("x", meta(0, 3), Drawn("randn")),)}, "SIGFPE compiling an empty input"),
        (Kind.TIMEOUT, {"symbolic": Symbolic.GIVEN}, "hang compiling torch.tanh dynamic"),
        (Kind.EXIT, {"graph": graph(output())}, "SIGFPE 0 ops"),
        (Kind.EXCEPTION, {"level": Level.SOURCE}, "LoweringError 'x_y' not lowered"),
    ],
)
def test_the_title_says_what_happens_and_to_what(kind, changes, words):
    failure = Failure(
        Fingerprint(Stage.COMPILE, kind, ("a.LoweringError",), message="SIGFPE"), "a.LoweringError", "`x_y` not lowered"
    )
    title = text_of(outcome(failure, **changes)).partition("\n")[0]
    assert all(word in title for word in words.split()) and "`" not in title, title


def test_a_control_that_fails_too_is_told_by_its_name():
    failure = small_case().failure
    for more, control in (({}, "with eager"), ({"level": Level.SOURCE}, "without torch.compile")):
        given = outcome(failure, **more)
        fails = text_of(replace(given, verification=verified(failure, failure)))
        assert control in text_of(given) and control in fails and fails != text_of(given)


def test_no_op_is_called_needed_by_a_backend_that_fails_on_any_graph():
    several = summed_up(outcome(), ops_after=2)
    assert "taken away" in text_of(several) and "Without this op the failure was gone" in text_of(outcome())
    of_any = text_of(outcome(any_graph=True))
    assert "taken away" not in of_any and "Without this op" not in of_any


def test_the_same_failure_has_the_same_key_whatever_its_numbers_and_the_users_names():
    case = small_case()

    def key(case=case, **changes):
        fingerprint = replace(case.failure.fingerprint, **changes)
        failing = replace(case, failure=replace(case.failure, fingerprint=fingerprint))
        return duplicate_key(replace(outcome(), case=failing, minimal=None))

    first, again = (key(message=f"no lowering for tanh of {size} elements") for size in (3, 88))
    assert first == again
    first, again = (key(message=f"cannot lower {name} (cumsum)", names=(name,)) for name in ("pos", "running.sum"))
    assert first == again
    op = case.graph.ops[0].short_target
    first, again = (key(message=f"cannot lower node '{name}'", names=names) for name, names in ((op, ()), ("h", "h")))
    assert first == again, "a node without a name of its own is called after its op"
    wrong = replace(case, failure=Failure(WRONG, "wrong-result", "it is off"))
    nodes = tuple(replace(node, target="torch.erf") if node.is_op else node for node in case.graph.nodes)
    others = [key(stage=Stage.RUN), key(native="error: no tile"), key(wrong), key(wrong, message="stride")]
    others += [key(replace(wrong, backend=replace(case.backend, name="other")))]
    others += [key(replace(wrong, graph=replace(case.graph, nodes=nodes)))]
    assert len({key(), *others}) == 7
    (section,) = duplicates(wrong, "0123")
    assert case.backend.name in section.blocks[0] and "0123" in section.blocks[0]


def test_the_result_says_what_check_needs():
    data = result_data(replace(outcome(), match="a.*b"))
    assert (data["level"], data["match"], data["match_log"]) == ("dynamo", "a.*b", None) and "template" in data


@pytest.mark.parametrize("module", ["__main__", "torch.testing._comparison", "torch._dynamo.guards"])
def test_an_assertion_of_the_script_is_its_own_check(module):
    """torch.compile raises nothing, and a backend that runs the graph in eager mode is not at fault."""
    fingerprint = Fingerprint(Stage.RUN, Kind.EXCEPTION, ("AssertionError",), Frame(module, "check"))
    case = replace(small_case(), level=Level.SOURCE, failure=Failure(fingerprint, "AssertionError", "not close"))
    case = replace(case, backend=replace(case.backend, name="eager"))
    text, is_own = text_of(outcome(case.failure, level=Level.SOURCE)), module != "torch._dynamo.guards"
    assert ("the script's own check fails with `AssertionError: not close`" in text) is is_own
    event = "the script's own check fails" if is_own else "AssertionError"
    assert title_of(case) == f"[torch.compile] {event}: not close"


def test_a_death_where_eager_raises_is_told_with_the_exception():
    raises = "eager raises RuntimeError: ZeroDivisionError; the compiled code ends the process"
    exception = "RuntimeError: ZeroDivisionError"
    difference = Difference(Aspect.NO_EXCEPTION, "the call", raises, exception=exception)
    died = Failure(Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGFPE"), "signal", "SIGFPE", differences=(difference,))
    text = text_of(summed_up(outcome(died), backends=(("eager", "passes"),)))
    assert "where eager raises RuntimeError: ZeroDivisionError." in text and "the same program runs" not in text


def test_a_summary_comes_back_from_its_json_as_it_was():
    others = (OtherFailure("E", "m", "", "compile", "exception", 2, 1, "others/1", near=False),)
    whole = Summary(9, 1, 1, 6, {"total": 12}, True, "", 1.0, others, ("n",), {"ops": "end"}, ("it",))
    whole = replace(whole, backends=(("eager", "passes"),))
    assert unpack(Summary, json.loads(json.dumps(pack(whole)))) == whole


def test_what_was_cut_off_is_not_called_minimal():
    cut_off = summed_up(outcome(), passes={"sizes": "unfinished", "data": "fixpoint"})
    assert outcome().proved == "minimal" != cut_off.proved and cut_off.proved in text_of(cut_off)


@pytest.mark.parametrize("found", [{"unanswered": 2, "unanswered_ops": 2}, {"invalid_ops": 1}])
def test_what_was_not_proved_is_not_called_minimal(found):
    open_ = summed_up(outcome(), one_minimal=False, **found)
    exceptions = open_.summary.exceptions
    assert exceptions and exceptions in text_of(open_) and exceptions in open_.proved and open_.proved != "minimal"


def traceback_text(exception, frames, message_lines):
    text = "Traceback (most recent call last):\n"
    for number in range(frames):
        text += f'  File "{exception}.py", line {number}, in frame_{number}\n    call()\n'
    return text + f"{exception}: line 0\n" + "".join(f"line {n} of {exception}\n" for n in range(1, message_lines))


def test_a_text_loses_its_middle():
    lines = [str(number) for number in range(50)]
    assert cut("\n".join(lines), 50).splitlines() == lines
    short = cut("\n".join(lines), 6).splitlines()
    assert (short[:3], short[-3:], len(short)) == (lines[:3], lines[-3:], 7)


def test_tracebacks_keep_their_innermost_frames_and_the_ends_of_their_messages():
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    shown = cut(traceback_text("Cause", 40, 3) + between + traceback_text("Wrapper", 40, 90), 60)
    for line in ("Cause: line 0", "line 2 of Cause", "Wrapper: line 0", "line 89 of Wrapper", "direct cause"):
        assert line in shown
    assert shown.count("in frame_39") == 2
    short = cut(traceback_text("Cause", 2, 1) + between + traceback_text("Wrapper", 60, 1), 60)
    assert traceback_text("Cause", 2, 1) in short and short.count("\n") == 60, "what one leaves, the other gets"
