"""What the report says of a run, by its kind of failure."""

import json
from dataclasses import replace
from importlib.metadata import version

import pytest
from case_samples import call, graph, meta, output, placeholder, small_case

from minifier.case import BackendSource, Drawn, Level, Ref, Stored, Symbolic, TensorInput
from minifier.case.decode import unpack
from minifier.case.encode import pack
from minifier.emit.repro import Repro
from minifier.failure import Aspect, Difference, ElementPair, Failure, Fingerprint, Frame, Kind, Stage
from minifier.reduction.summary import Summary
from minifier.report.blocks import Drawing, Folded, cut
from minifier.report.changed_inputs import free_aspects
from minifier.report.drawing import boxes_of, layers_of
from minifier.report.duplicate_key import duplicate_key
from minifier.report.failure_text import duplicates, title_of
from minifier.report.history import Probed
from minifier.report.markdown import markdown
from minifier.report.outcome import Outcome, Status, result_data
from minifier.report.privacy import NOBODYS, shareable_case
from minifier.report.sections import report_of
from minifier.verify import ScriptRun, Verification

WRONG = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values")
DIFFERENCES = (
    Difference(Aspect.VALUES, "output 0", "output 0 is off by 0.02, eager by 1e-08", 0.0213456, 1e-8, 2e-8),
    Difference(Aspect.DTYPE, "output 1", "output 1 is of type float64, in eager of float32 | or so"),
)


def outcome(failure, **more):
    case = replace(small_case(), failure=failure, **more)
    notes = ("a probe failed by itself: no space left",)
    summary = Summary(9, 1, 1, 6, {"total": 12}, True, "", 1.0, notes=notes, backends=(("eager", "passes"),))
    return Outcome(Status.NO_REPRO, case, case, summary, None, None, "", 0.0, 1.0, match="a.*b")


def text_of(given, history=()):
    return markdown(report_of(given, history))


def test_a_comparison_is_a_table_with_the_error_of_each_output():
    failure = Failure(WRONG, "wrong-result", DIFFERENCES[0].sentence, differences=DIFFERENCES)
    text = text_of(outcome(failure))
    assert text.startswith("# [oddlib_tanh] wrong result of torch.tanh and operator.add\n")
    assert "| output 0 | values | 0.0213 | 1e-08 | 2e-08 |  |\n" in text
    assert "| output 1 | dtype |  |  |  | output 1 is of type float64, in eager of float32 &#124; or so |\n" in text


def test_elements_of_a_wrong_result_are_a_table_unless_they_may_be_the_users_data(tmp_path):
    elements = (ElementPair((0, 3), "1.5", "1.4999999", 1.0), ElementPair((1, 0), "nan", "2"))
    failure = Failure(WRONG, "wrong-result", "off", differences=(replace(DIFFERENCES[0], elements=elements),))
    given = replace(outcome(failure), repro=Repro("import torch\n", None))
    text = text_of(given)
    assert "Elements of output 0 of the repro that are furthest from eager's:" in text
    assert "| index | compiled | eager | ulps |" in text and "| 0, 3 | 1.5 | 1.4999999 | 1 |\n" in text
    assert "| 1, 0 | nan | 2 |  |\n" in text
    for private in (outcome(failure), replace(given, repro=Repro("import torch\n", None, tmp_path / "values"))):
        assert "furthest" not in text_of(private) and "1.4999999" not in text_of(private)
    case = shareable_case(json.dumps(pack(given.case)), NOBODYS, "", str)
    assert "output 0" in case and "1.4999999" not in case


def test_the_first_sentence_is_for_somebody_who_has_never_seen_the_script():
    said = text_of(outcome(small_case().failure)).splitlines()[4]
    assert said == (
        '`torch.compile(..., backend="oddlib_tanh")` of a function with 2 ops, `tanh` and `add`, fails while the '
        "backend compiles: it raises `RuntimeError: no lowering for tanh`. Without a backend the same program runs."
    )


def test_the_steps_are_a_table_of_what_the_journal_says():
    history = (
        Probed("check", 9, True, 0.5, 100),
        Probed("delete", 4, False, 0.25, 50),
        Probed("delete", 4, True, 0.25, 60),
        Probed("sizes", 1, False, 0.1, 1),
    )
    text = text_of(outcome(small_case().failure), history)
    assert (
        "| check | 1 | 1 | 9 | 100 | 0.50 |\n| delete | 2 | 1 | 4 | 60 | 0.50 |\n| sizes | 1 | 0 |  |  | 0.10 |\n"
        in text
    )
    assert "- a probe failed by itself: no space left\n" in text


def test_which_backends_fail_on_the_graph():
    text = text_of(outcome(small_case().failure))
    assert "| `eager` | passes |\n| `oddlib_tanh` | fails (compile, exception) |\n" in text
    assert "| import | `import oddlib` |\n" in text and "| found by | registered by name |\n" in text


@pytest.mark.parametrize("reach", BackendSource)
def test_every_way_to_a_backend_has_words(reach):
    backend = replace(small_case().backend, reach=reach)
    assert "| found by | " in text_of(outcome(small_case().failure, backend=backend))


def test_a_backend_of_no_distribution_has_no_row_for_one():
    assert "| distribution |" not in text_of(outcome(small_case().failure))
    backend = replace(small_case().backend, distribution="oddlib", version="1.2")
    assert "| distribution | oddlib 1.2 |\n" in text_of(outcome(small_case().failure, backend=backend))


def test_the_versions_of_what_failed_are_there_without_a_repro():
    place = Frame("rich.console", "render")
    failure = small_case().failure
    failure = replace(failure, fingerprint=replace(failure.fingerprint, raising=place, types=("click.ClickException",)))
    given = outcome(failure, backend=replace(small_case().backend, imports=("from jinja2 import Environment",)))
    assert given.verification is None
    said = next(line for line in text_of(given).splitlines() if line.startswith("| imported beside torch |"))
    assert all(f"{name} {version(name)}" in said for name in ("click", "rich"))


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("stage", Stage)
def test_every_failure_has_a_sentence(kind, stage):
    failure = Failure(Fingerprint(stage, kind, ("E",), message="m"), "E", "m")
    said = text_of(outcome(failure)).splitlines()[4]
    assert said.endswith(".") and "m" in said and "None" not in said


def test_the_stack_of_a_death_is_shown_and_its_rate():
    stack = 'Current thread 0x1 (most recent call first):\n  File "lowering.py", line 3 in lower'
    failure = Failure(Fingerprint(Stage.COMPILE, Kind.SIGNAL, message="SIGSEGV"), "signal", "SIGSEGV", stack)
    text = text_of(outcome(failure, rate=0.3))
    assert "lowering.py" in text and "about 30% of all attempts" in text and "`signal: SIGSEGV`" in text


def checked(*runs, control):
    """A verification whose runs showed these failures, and whose control showed this one."""
    shown = [ScriptRun(1, failure, "", 1.0) for failure in (*runs, control)]
    return Verification(tuple(shown[:-1]), len(runs), 1.0, shown[-1])


@pytest.mark.parametrize(
    ("more", "control"),
    [
        ({}, "with eager in the place of the backend"),
        ({"level": Level.SOURCE}, "without torch.compile"),
        ({"while_tracing": True}, "without torch.compile"),
    ],
)
def test_the_control_is_the_one_that_was_made(more, control):
    failure = small_case().failure
    given = outcome(failure, **more)
    passes = replace(given, verification=checked(failure, control=None))
    assert f"It passes {control}.\n" in text_of(passes)
    fails = replace(given, verification=checked(failure, control=failure))
    assert f"No repro: it fails {control} too.\n" in text_of(fails)


def test_one_op_is_not_called_one_ops():
    one = replace(small_case(), graph=graph(placeholder("x"), call("tanh", "torch.tanh", Ref("x")), output("tanh")))
    given = replace(outcome(small_case().failure), case=one, minimal=one)
    assert "\n1 op, as captured, in 12 probes. " in text_of(given)
    history = (Probed("check", 1, True, 0.5, 100),)
    blocks = (block for section in report_of(given, history).sections for block in section.blocks)
    pictures = "".join(each.svg for block in blocks for each in drawings(block))
    assert "1 op of the graph as captured" in pictures and "check: 1 op, the" in pictures and "1 ops" not in pictures
    smaller = replace(given, case=small_case())
    assert "\nFrom 2 ops to 1, in 12 probes. " in text_of(smaller)


def drawings(block):
    inner = block.blocks if isinstance(block, Folded) else (block,)
    return (each for each in inner if isinstance(each, Drawing))


def test_no_op_is_called_needed_by_a_backend_that_fails_on_any_graph():
    text = text_of(outcome(small_case().failure, any_graph=True))
    assert "fails on any graph, also on one without ops" in text and "was taken away" not in text


def test_where_compiled_and_eager_part_is_shown_if_it_is_known():
    given = outcome(small_case().failure)
    parts = (("torch.tanh", "off by 0.02"), ("torch.exp", "off by 1"), ("torch.exp", "off by 1"))
    text = text_of(replace(given, summary=replace(given.summary, divergent=parts)))
    assert (
        "## Ops whose compiled result differs\n\n- `torch.tanh`: off by 0.02\n- `torch.exp`: off by 1 (2 times)\n"
        in text
    )
    assert "compiled and eager part" not in text_of(given)


def test_the_same_failure_has_the_same_key_whatever_the_numbers():
    case = small_case()

    def identity(**changes):
        fingerprint = replace(case.failure.fingerprint, **changes)
        return duplicate_key(replace(case, failure=replace(case.failure, fingerprint=fingerprint)))

    first, again = (identity(message=f"no lowering for tanh of {size} elements") for size in (3, 88))
    assert first == again != identity() and len(first) == 12
    assert identity(stage=Stage.RUN) != identity() and identity(native="error: no tile") != identity()


def test_names_that_a_user_chose_are_no_part_of_the_identity():
    case = small_case()

    def reported(name):
        fingerprint = replace(case.failure.fingerprint, message=f"cannot lower {name} (cumsum)", names=(name,))
        renamed = replace(case, failure=replace(case.failure, fingerprint=fingerprint))
        (section,) = duplicates(renamed)
        return duplicate_key(renamed), "".join(block.text for block in section.blocks)

    (first, text), (again, same_text) = reported("pos"), reported("running.sum")
    assert first == again and text == same_text and "cannot lower (cumsum)" in text


def test_wrong_results_of_other_backends_and_ops_have_other_identities():
    failure = Failure(Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values"), "wrong-result", "it is off")
    case = replace(small_case(), failure=failure)
    other_backend = replace(case, backend=replace(case.backend, name="other"))
    nodes = tuple(replace(node, target="torch.erf") if node.is_op else node for node in case.graph.nodes)
    other_op = replace(case, graph=replace(case.graph, nodes=nodes))
    stride = replace(case, failure=replace(failure, fingerprint=replace(failure.fingerprint, message="stride")))
    identities = [duplicate_key(each) for each in (case, other_backend, other_op, stride)]
    assert len(set(identities)) == 4
    assert f"Search for `{case.backend.name} " in text_of(outcome(failure))
    assert "wrong values`" in text_of(outcome(failure))


def test_a_graph_is_drawn_from_its_inputs_down():
    x, y = placeholder("x"), placeholder("y")
    ops = (
        call("a", "torch.sin", Ref("x")),
        call("b", "torch.cos", Ref("a")),
        call("c", "torch.add", Ref("b"), Ref("y")),
    )
    boxes = boxes_of(graph(x, y, *ops, output("c", "a")))
    assert [box.label for box in boxes] == ["input", "input", "sin", "cos", "add", "output"]
    assert boxes[4].below == (3, 1) and boxes[2].detail == "f32[2, 3]"
    assert layers_of(boxes) == ((0,), (2,), (3, 1), (4,), (5,))


@pytest.mark.parametrize("field", ["level", "template", "match", "match_log"])
def test_the_result_says_what_check_needs(field):
    wanted = {"level": "dynamo", "template": None, "match": "a.*b", "match_log": None}
    assert result_data(outcome(small_case().failure))[field] == wanted[field]


def test_a_summary_comes_back_from_its_json_as_it_was():
    others = ({"type": "E", "sightings": 2, "case": "others/1"},)
    whole = Summary(9, 1, 1, 6, {"total": 12}, True, "", 1.0, others, ("n",), (("a", "b"),), {"ops": "end"}, ("it",))
    whole = replace(whole, backends=(("eager", "passes"),))
    assert unpack(Summary, json.loads(json.dumps(pack(whole)))) == whole


def fingerprint(stage, kind, message=""):
    return Failure(
        Fingerprint(stage, kind, ("a.b.LoweringError",), message=message), "a.b.LoweringError", "not lowered"
    )


DRAWN = Drawn("randn")
EMPTY = TensorInput("x", meta(0, 3), DRAWN)


@pytest.mark.parametrize(
    ("failure", "more", "title"),
    [
        (fingerprint(Stage.COMPILE, Kind.EXCEPTION), {}, "LoweringError compiling torch.tanh and operator.add"),
        (
            fingerprint(Stage.COMPILE, Kind.SIGNAL, "SIGFPE"),
            {"inputs": (EMPTY,)},
            "SIGFPE compiling torch.tanh and operator.add with an empty input",
        ),
        (
            fingerprint(Stage.BACKWARD_RUN, Kind.TIMEOUT, "no end"),
            {"symbolic": Symbolic.GIVEN},
            "hang running the backward of torch.tanh and operator.add with dynamic sizes",
        ),
        (
            fingerprint(Stage.RUN, Kind.EXIT, "exit status 3"),
            {"graph": graph(output())},
            "exit status 3 running a graph of 0 ops",
        ),
        (fingerprint(Stage.COMPILE, Kind.EXCEPTION), {"level": Level.SOURCE}, "LoweringError: not lowered"),
        (fingerprint(Stage.RUN, Kind.SIGNAL, "SIGSEGV"), {"level": Level.SOURCE}, "SIGSEGV under torch.compile"),
        (
            fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, "gradient"),
            {},
            "wrong gradient of torch.tanh and operator.add",
        ),
    ],
)
def test_the_title_says_what_happens_and_to_what(failure, more, title):
    assert title_of(replace(small_case(), failure=failure, **more)) == f"[oddlib_tanh] {title}"


@pytest.mark.parametrize("aspect", Aspect)
def test_every_wrong_result_has_a_title(aspect):
    title = title_of(replace(small_case(), failure=fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, aspect.value)))
    assert title.endswith("torch.tanh and operator.add") and "eager" not in title


def changed(before, after, source=DRAWN, **more):
    """The aspects that are free where an input was captured like `before` and is `after` now."""
    graph_ = graph(placeholder("x", before), call("tanh", "torch.tanh", Ref("x")), output("tanh"))
    captured = replace(small_case(), graph=graph_, inputs=(TensorInput("x", before, Stored("x")),))
    return free_aspects(captured, replace(captured, **{"inputs": (TensorInput("x", after, source),), **more}))


TRANSPOSED = replace(meta(4, 8), stride=(1, 4))


@pytest.mark.parametrize(
    ("before", "after", "more", "free"),
    [
        (meta(4, 8), meta(1, 1), {}, ("size", "value")),
        (meta(4, 8), meta(4, 8), {}, ("value",)),
        (meta(4, 8), meta(4), {"source": Stored("x")}, ("size",)),
        (meta(4, 8), meta(0, 1), {}, ("value",)),
        (meta(4, 8), meta(2, 2), {"symbolic": Symbolic.GIVEN}, ("value",)),
        (meta(4, 8, dtype="float16"), meta(4, 8), {}, ("dtype", "value")),
        (TRANSPOSED, meta(4, 8), {}, ("stride", "value")),
        (TRANSPOSED, TRANSPOSED, {}, ("value",)),
    ],
)
def test_an_aspect_is_free_only_where_it_was_changed(before, after, more, free):
    assert changed(before, after, **more) == free


def test_an_input_that_was_not_captured_tells_nothing():
    assert changed(meta(4), meta(1), inputs=(EMPTY, TensorInput("new", meta(1), DRAWN))) == ()


def test_what_was_cut_off_is_not_called_minimal():
    done = outcome(small_case().failure)
    cut_off = replace(done, summary=replace(done.summary, passes={"sizes": "unfinished", "data": "fixpoint"}))
    assert done.proved == "minimal"
    assert cut_off.proved == "no op can go; simplifying ended: its default time limit was reached"
    assert "Simplifying ended, so that more might go: its default time limit was reached." in text_of(cut_off)


def traceback_text(exception, frames, message_lines):
    text = "Traceback (most recent call last):\n"
    for number in range(frames):
        text += f'  File "{exception}.py", line {number}, in frame_{number}\n    call()\n'
    return text + f"{exception}: line 0\n" + "".join(f"line {n} of {exception}\n" for n in range(1, message_lines))


def test_a_text_loses_its_middle():
    lines = [str(number) for number in range(50)]
    assert cut("\n".join(lines), 50).splitlines() == lines
    assert cut("\n".join(lines), 6).splitlines() == [*lines[:3], "[44 lines left out]", *lines[-3:]]


def test_a_traceback_keeps_its_innermost_frames_and_the_ends_of_its_message():
    shown = cut(traceback_text("KernelError", 40, 200), 60).splitlines()
    assert len(shown) == 62
    assert shown[0] == "Traceback (most recent call last):"
    for innermost in (39, 30):
        assert f'  File "KernelError.py", line {innermost}, in frame_{innermost}' in shown
    assert "KernelError: line 0" in shown and shown[-1] == "line 199 of KernelError"


def test_the_cause_keeps_its_innermost_frames_too():
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    shown = cut(traceback_text("Cause", 40, 3) + between + traceback_text("Wrapper", 40, 90), 60)
    for line in ("in frame_39", "Cause: line 0", "line 2 of Cause", "Wrapper: line 0", "direct cause"):
        assert line in shown
    assert shown.count("in frame_39") == 2
    short = cut(traceback_text("Cause", 2, 1) + between + traceback_text("Wrapper", 60, 1), 60)
    assert traceback_text("Cause", 2, 1) in short and short.count("\n") == 60, "what one leaves, the other gets"


def test_it_is_told_whether_the_ops_make_the_script_wrong():
    given = outcome(small_case().failure)
    text = text_of(replace(given, summary=replace(given.summary, guilt="doubtful", cause="the results stay wrong")))
    assert "## Ops whose compiled result differs\n\nThe results stay wrong.\n" in text
