"""Each row of the fallbacks by itself: when it applies, and what the user is told; and the order of the rows."""

from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import small_case
from vocabulary import Lines

from minifier.capturing.captured import Captured, FailingGraph
from minifier.capturing.find_failures import FoundFailures
from minifier.capturing.script import Program
from minifier.capturing.terms import Terms
from minifier.case import Level, Node
from minifier.case.run_folder import RunFolder
from minifier.case.store import save
from minifier.emit.repro import Repro
from minifier.errors import NoRepro, OtherMessage
from minifier.failure import Fingerprint, Kind, Stage
from minifier.passes.table import OF_VALUES
from minifier.probe.prepared_case import StartsThreads
from minifier.process.forked_step import StepEnd
from minifier.process.phase_clock import PhaseClock
from minifier.reduction.summary import Summary
from minifier.settings import Settings
from minifier.workflow import fallbacks
from minifier.workflow.attempt import Attempt, FailingCall, Reduced, ReproResult, Run
from minifier.workflow.fallbacks import FALLBACKS, Fallback, Step, fall_back
from minifier.workflow.imports_ahead import other_imports
from minifier.workflow.interrupted_runs import Asked

pytestmark = pytest.mark.timeout(60)

CASE = replace(small_case(), level=Level.DYNAMO)
SUMMARY = Summary(9, 2, 1, 6, {"total": 12}, True, "", 1.0)
REDUCED = Reduced(SUMMARY, CASE, (CASE,))
GRAPH = FailingGraph(1, "no lowering", "Traceback ...", 9, "acme", Stage.RUN, failure=CASE.failure)
LOST = "the failing call had changed its inputs"


def failures(*failing: FailingGraph, **captured: object) -> FoundFailures:
    run = Captured(StepEnd(0, None, interrupted=False), 2, failing, **{"seconds": 1.0, **captured})
    return FoundFailures(Program("failing.py"), run, Path("work"), Path("work/graphs"), Terms())


def row(name: str) -> Fallback:
    return next(each for each in FALLBACKS if each.name == name)


def applies(name: str, state: object, **settings: object) -> bool:
    return row(name).applies(state, Run(Settings(**settings)))


@pytest.fixture
def attempt(tmp_path):
    """An attempt at a Case of Dynamo's whose reduction is complete."""
    folder = RunFolder(tmp_path / "out")
    save(CASE, folder.case)
    return Attempt(Run(Settings()), folder, CASE, Asked(Program("failing.py")), reduced=REDUCED)


@pytest.fixture
def call(tmp_path):
    found = replace(failures(GRAPH), work=tmp_path, graphs=tmp_path / "graphs")
    save(CASE, found.graphs / "1")
    return FailingCall.of(found, GRAPH)


def test_the_rows_have_names_of_their_own_and_a_step_each():
    names = [each.name for each in FALLBACKS]
    assert len(set(names)) == len(names) == 21
    assert {each.after for each in FALLBACKS} == set(Step)


def test_the_architecture_page_has_the_rows_in_their_order():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"
    table = page.read_text(encoding="utf-8").partition("| after step | name |")[2]
    cells = [line.split("|")[2].strip() for line in table.splitlines()[2:] if line.startswith("|")]
    assert cells == [each.name for each in FALLBACKS]


def test_every_row_tells_the_user_what_it_tries(attempt, call):
    states = {Step.CAPTURE: failures(), Step.CHOOSE: call}
    for each in FALLBACKS:
        assert each.sentence(states.get(each.after, attempt)).rpartition("\n")[2], each.name


def test_a_script_without_a_failure_is_compared_with_eager():
    name = "compare with eager"
    assert applies(name, failures()) and not applies(name, failures(), compare="never")
    assert not applies(name, failures(GRAPH)) and applies(name, failures(GRAPH), compare="always")


def test_lost_inputs_are_recorded_ahead_of_the_call(call):
    lost = replace(call, failing=replace(GRAPH, inputs_lost=LOST))
    assert applies(fallbacks.RECORD_INPUTS, lost) and not applies(fallbacks.RECORD_INPUTS, call)
    assert not applies(fallbacks.RECORD_INPUTS, replace(lost, failing=replace(lost.failing, unsaved="too large")))
    assert row(fallbacks.RECORD_INPUTS).sentence(lost) == f"{LOST}: running the script again to keep them"


def test_a_graph_that_cannot_be_saved_gives_way_to_its_aten_graph(call):
    name = "take the ATen graph in place of one that cannot be saved"
    unsaved = replace(call, failing=replace(GRAPH, unsaved="a generator"))
    assert not applies(name, unsaved)
    save(replace(CASE, level=Level.AOT_FORWARD), call.folder / "aten")
    assert applies(name, unsaved) and not applies(name, call)
    ui = Lines()
    taken = fall_back(unsaved, Step.CHOOSE, Run(Settings(), PhaseClock(ui)))
    assert taken.folder == call.folder / "aten" and not taken.unsaved and taken.fallbacks == (name,)
    assert ui.lines == [
        "Dynamo's graph cannot be saved: a generator",
        "going on with the ATen graph that AOTAutograd made of it",
    ]


def test_a_backend_that_starts_threads_is_imported_by_each_probe(attempt):
    name = "import the backend in each probe"
    assert applies(name, attempt.failed(StartsThreads("2 threads"))) and not applies(
        name, attempt.failed(NoRepro("no"))
    )


def test_imports_for_their_effect_come_ahead_of_a_backend_that_needs_them(attempt, tmp_path):
    name = "put the script's imports ahead of the backend's"
    script = tmp_path / "script.py"
    script.write_text("import os\nimport patch\nimport torch\n\nos.getcwd()\n")
    asked = replace(attempt, asked=Asked(Program(str(script))))
    gone = asked.failed(NoRepro("no module"))
    assert applies(name, gone) and not applies(name, asked) and not applies(name, attempt.failed(NoRepro("no")))
    assert other_imports(gone) == (("import patch", "import torch"), ("import os", "import patch", "import torch"))
    assert not applies(name, replace(gone, case=replace(CASE, backend=replace(CASE.backend, ahead=("import patch",)))))


def test_torch_compile_is_called_where_the_backend_alone_does_not_show_the_failure(attempt):
    name = "probe through torch.compile"
    gone = attempt.failed(NoRepro("gone"))
    assert applies(name, gone) and not applies(name, attempt)
    assert not applies(name, attempt.failed(StartsThreads("gone")))
    assert not applies(name, replace(gone, case=replace(CASE, through_dynamo=True)))
    assert not applies(name, replace(gone, case=replace(CASE, level=Level.AOT_FORWARD)))


def test_the_message_is_left_out_where_the_same_function_raised_another(attempt):
    name = "leave the message out of the failure's identity"
    gone = replace(attempt, reduced=None).failed(OtherMessage("it showed another"))
    assert applies(name, gone) and not applies(name, gone.failed(NoRepro("gone")))
    assert row(name).sentence(gone).startswith("it showed another\nthe message varies: trying again")
    fingerprint = replace(CASE.failure.fingerprint, any_message=True)
    assert not applies(name, replace(gone, case=replace(CASE, failure=replace(CASE.failure, fingerprint=fingerprint))))


@pytest.mark.parametrize(("ops", "near", "applied"), [(18, 9, True), (18, 8, False), (6, 3, True), (5, 5, False)])
def test_the_message_is_left_out_where_it_holds_up_the_search(attempt, ops, near, applied):
    name = "leave the message out of the failure's identity"
    others = ({"near": False},) * ops + ({"near": True},) * near
    summary = replace(SUMMARY, ops_after=ops, others=others)
    held_up = replace(attempt, reduced=Reduced(summary, CASE, (CASE,)))
    assert applies(name, held_up) is applied
    assert row(name).sentence(held_up).startswith("smaller graphs fail in the same function with other messages: ")
    stopped = replace(summary, stopped_because="the budget of 9 s was used up")
    assert not applies(name, replace(attempt, reduced=Reduced(stopped, CASE, (CASE,))))


def test_the_aten_graph_is_reduced_where_dynamos_does_not_show_the_failure(attempt):
    name = "reduce the ATen graph"
    gone = attempt.failed(NoRepro("gone"))
    assert not applies(name, gone)
    save(replace(CASE, level=Level.AOT_FORWARD), attempt.folder.aten)
    assert applies(name, gone) and not applies(name, attempt)


def test_a_backward_graph_is_lifted_and_else_simplified(attempt):
    lift, simplify = "look for a small module that has the backward graph", "simplify the backward graph itself"
    backward = replace(CASE, level=Level.AOT_BACKWARD)
    attempt = replace(attempt, reduced=Reduced(SUMMARY, backward, (backward,)))
    assert not applies(lift, attempt) and not applies(simplify, attempt)
    save(CASE, attempt.folder.forward)
    assert applies(lift, attempt) and applies(simplify, attempt)
    assert row(lift).sentence(attempt) == "reduced from 9 ops to 2; looking for a small module"
    assert "does not show it again" in row(lift).sentence(replace(attempt, reduced=None))
    assert not applies(simplify, replace(attempt, reduced=Reduced(SUMMARY, backward, (CASE, backward))))
    stopped = replace(SUMMARY, stopped_because="interrupted")
    assert not applies(simplify, replace(attempt, reduced=Reduced(stopped, backward, (backward,))))


def test_a_call_that_may_have_changed_its_inputs_is_recorded_once(attempt, call):
    name = "record the inputs ahead of a call that may have changed them"
    gone = replace(attempt.failed(NoRepro("gone")), call=call)
    assert applies(name, gone) and not applies(name, replace(gone, error=None))
    assert not applies(name, replace(gone, call=None))
    assert not applies(name, replace(gone, call=replace(call, fallbacks=(fallbacks.RECORD_INPUTS,))))
    assert not applies(name, replace(gone, call=replace(call, failing=replace(GRAPH, stage=Stage.COMPILE))))
    lost = replace(call, failing=replace(GRAPH, inputs_lost=LOST))  # the first recapture went otherwise
    assert not applies(name, replace(gone, call=lost))


def test_tensors_that_the_reduced_graph_holds_become_parameters(attempt):
    name = "pass the graph's own tensors as parameters"
    holding = replace(CASE, graph=replace(CASE.graph, attributes={"weight": "weight"}))
    assert applies(name, replace(attempt, reduced=Reduced(SUMMARY, holding, (holding,))))
    assert not applies(name, replace(attempt, reduced=Reduced(SUMMARY, CASE, (CASE,))))
    aten = replace(holding, level=Level.AOT_FORWARD)
    assert not applies(name, replace(attempt, reduced=Reduced(SUMMARY, aten, (aten,))))
    assert not applies(name, replace(attempt, reduced=None))


def test_a_case_without_a_repro_is_tried_in_other_ways(attempt, monkeypatch):
    variables, flaky = "set environment variables in the repro", "take the failure for a flaky one"
    captured = "keep sizes, dtypes and arguments as captured"
    unproved = replace(attempt, repro_result=ReproResult(CASE, reason="it showed no failure"))
    proved = replace(attempt, repro_result=ReproResult(CASE, Repro("print()", None)))
    assert not applies(flaky, unproved) and applies(captured, unproved)
    assert applies(flaky, replace(unproved, repro_result=replace(unproved.repro_result, doubtful=(CASE,))))
    assert not applies(captured, unproved, skipped=tuple(OF_VALUES))
    monkeypatch.setenv("ACME_FUSE", "1")
    assert applies(variables, unproved)
    assert not any(applies(name, proved) for name in (variables, flaky, captured))
    assert not any(applies(name, replace(attempt, reduced=None)) for name in (variables, flaky, captured))


def test_the_script_is_reduced_too_where_the_graph_is_made_of_transforms(attempt):
    name = "reduce the script whose graph is made of transforms"
    dual = Node("dual", "call_function", "torch._functorch.predispatch._make_dual")
    ops = tuple(replace(dual, name=f"dual{number}") for number in range(5))
    graph = replace(CASE.graph, nodes=(*ops, CASE.graph.output))
    traced = replace(attempt, reduced=Reduced(SUMMARY, replace(CASE, graph=graph), (CASE,)))
    proved = replace(traced, repro_result=ReproResult(CASE, Repro("print()", None)))
    assert applies(name, proved) and not applies(name, traced)
    assert not applies(name, replace(proved, asked=None))
    assert not applies(name, replace(proved, reduced=Reduced(SUMMARY, CASE, (CASE,))))


def test_the_script_is_reduced_where_no_graph_shows_the_failure(attempt):
    name = "reduce the script itself"
    unproved = replace(attempt, repro_result=ReproResult(CASE, reason="it showed no failure"))
    assert applies(name, unproved) and row(name).sentence(unproved) == (
        "no repro of the graph: it showed no failure\nreducing the script itself instead"
    )
    assert not applies(name, replace(unproved, asked=None))
    hang = replace(CASE.failure, fingerprint=Fingerprint(Stage.COMPILE, Kind.TIMEOUT))
    assert not applies(name, replace(unproved, case=replace(CASE, failure=hang)))


def test_rows_are_taken_in_order_and_see_what_came_of_the_ones_above(attempt, monkeypatch):
    def gives(name: str, wanted: str, error: str) -> Fallback:
        return Fallback(
            name,
            Step.REDUCE,
            lambda state, _: str(state.error) == wanted,
            lambda state, _: replace(state.failed(NoRepro(error)), capture_seconds=state.capture_seconds + 1),
            lambda _: "" if name == "second" else name,
        )

    monkeypatch.setattr(
        fallbacks, "FALLBACKS", (gives("first", "a", "b"), gives("second", "b", "c"), gives("x", "a", ""))
    )
    ui = Lines()
    after = fall_back(attempt.failed(NoRepro("a")), Step.REDUCE, Run(Settings(), PhaseClock(ui)))
    assert (str(after.error), after.fallbacks, ui.lines) == ("c", ("first", "second"), ["first"])
    assert ui.details == ["fallback: first", "fallback: second"]
    assert fall_back(after, Step.VERIFY, Run(Settings(), PhaseClock(ui))) == after


def test_a_row_without_an_effect_leaves_the_attempt_and_its_history_alone(attempt, monkeypatch):
    def row_of(name: str, effect) -> Fallback:
        return Fallback(name, Step.END, lambda *_: True, effect, lambda _: name)

    def with_an_inner_row(state, _):
        return replace(state, error=NoRepro("b"), fallbacks=(*state.fallbacks, "inner"))

    run = Run(Settings())
    monkeypatch.setattr(fallbacks, "FALLBACKS", (row_of("vain", lambda state, _: replace(state)),))
    assert fall_back(attempt, Step.END, run) is attempt
    monkeypatch.setattr(fallbacks, "FALLBACKS", (*fallbacks.FALLBACKS, row_of("outer", with_an_inner_row)))
    assert fall_back(attempt, Step.END, run).fallbacks == ("outer", "inner")


def test_a_row_that_ends_in_another_error_was_tried_and_not_taken(attempt, monkeypatch):
    vain = Fallback("vain", Step.END, lambda *_: True, lambda state, _: state.failed(NoRepro("b")), lambda _: "")
    monkeypatch.setattr(fallbacks, "FALLBACKS", (vain,))
    after = fall_back(attempt.failed(NoRepro("a")), Step.END, Run(Settings()))
    assert (after.reason, after.fallbacks) == ("b", ())


def test_the_rows_of_the_capture_are_in_the_history_of_the_failing_call(monkeypatch):
    compared = Fallback(
        "compare", Step.CAPTURE, lambda *_: True, lambda _, run: failures(GRAPH, seconds=2.0), lambda _: "comparing"
    )
    monkeypatch.setattr(fallbacks, "FALLBACKS", (compared,))
    found = fall_back(failures(), Step.CAPTURE, Run(Settings()))
    assert FailingCall.of(found, GRAPH).fallbacks == ("compare",)


@pytest.mark.parametrize(
    ("other", "settings", "does"),
    [
        ({"near": True, "ops": 2}, {}, True),
        ({"near": True, "ops": 1}, {}, False),
        ({"near": False, "ops": 2}, {}, False),
        ({"near": True, "ops": 2}, {"max_probes": 12}, False),
        ({"near": True, "ops": 2}, {"max_probes": 13}, True),
        ({"near": True, "ops": 2}, {"budget": 0.0}, False),
    ],
)
def test_a_near_failure_is_reduced_while_there_is_a_budget(attempt, other, settings, does):
    result = ReproResult(CASE, Repro("", None))
    reduced = replace(REDUCED, summary=replace(SUMMARY, others=(other,)))
    given = replace(attempt, reduced=reduced, repro_result=result)
    given = replace(given, run=Run(Settings(**settings)))
    assert row("reduce another failure of the same place").applies(given, given.run) is does
    assert not row("reduce another failure of the same place").applies(replace(given, repro_result=None), given.run)
