"""Interrupted at any probe: the best so far; begun again, the same Case as without, and nothing is asked twice."""

from dataclasses import replace

import pytest
from chains import chain, names
from fake_prober import differs, hangs, has, passes, raises, when

from minifier.data.case import Drawn
from minifier.data.case.calls import called
from minifier.data.case.ops import with_ops
from minifier.data.case.run_folder import JOURNAL
from minifier.data.failure import Verdict
from minifier.data.settings import Settings
from minifier.errors import NoRepro
from minifier.reduction.journal import BEGUN, Entry, Journal, Keys
from minifier.reduction.passes.edits import Pass, row
from minifier.reduction.passes.table import SIMPLIFICATIONS
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe_runner import ProbeRunner
from minifier.torch_side.fx.tensors import StoredTensors

CASE = chain("cos", "sin", "exp", "tanh", "sigmoid", "relu", shape=(5,))
NEEDED = {"exp", "sigmoid"}


def fault(case, least=3):
    large = any(size >= least for item in case.inputs for size in item.meta.shape)
    return raises() if set(names(case)) >= NEEDED and large else passes()


class Killed(BaseException):
    """The end of the process, as far as a reduction can tell."""


@pytest.fixture
def whole(reduce):
    return reduce(CASE, fault)


def probes_of(whole):
    return len(whole.prober.asked)


@pytest.mark.usefixtures("laborious")
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_at_any_probe_it_ends_with_the_same(reduce, folder, workers):
    expected = reduce(CASE, fault, workers)
    probes = probes_of(expected)
    for at in range(0, probes, 3 if workers == 1 else 7):
        out = folder / f"killed-{at}"
        with pytest.raises(Killed):
            reduce(CASE, fault, workers, interrupt_at=at, interrupt=Killed, out=out)
        assert not (out / "minimal").exists()
        done = reduce(CASE, fault, workers, out=out)
        assert (done.case.graph, done.case.inputs, done.case.state) == (
            expected.case.graph, expected.case.inputs, expected.case.state
        ), at  # fmt: skip
        assert done.summary.passes == expected.summary.passes and done.summary.needs == expected.summary.needs
        assert done.nearest.graph == expected.nearest.graph and done.nearest.inputs == expected.nearest.inputs
        assert done.summary.one_minimal
        assert not (out / BEGUN).exists()
        # Made again: three probes of the check, of the reduced graph and of the simplified Case each, the result, and
        # what was being tried.
        assert at + len(done.prober.asked) <= probes + 3 + 3 + 3 + 1 + workers


@pytest.mark.usefixtures("laborious")
def test_interrupted_at_any_probe_it_has_the_best_so_far(reduce, folder, whole):
    sizes = []
    for at in range(3, probes_of(whole), 3):
        out = folder / f"interrupted-{at}"
        try:
            done = reduce(CASE, fault, interrupt_at=at, out=out)
        except KeyboardInterrupt:
            pytest.fail(f"interrupted at probe {at} it leaves nothing")
        assert fault(done.case).result == raises().result, "what is written shows the failure"
        sizes.append(len(names(done.case)))
        assert len(done.prober.asked) <= at + 1, "one probe more, to lose the user's values"
        if done.summary.stopped_because:
            assert done.nearest is None
            again = reduce(CASE, fault, out=out)
            assert again.case.graph == whole.case.graph and again.case.inputs == whole.case.inputs
    assert sizes == sorted(sizes, reverse=True)


class Slip(Exception):
    """An error of the tool itself."""


@pytest.mark.parametrize("at", [2, 8])
def test_an_error_of_the_tool_leaves_the_best_so_far(reduce, whole, at):
    assert at < probes_of(whole)
    done = reduce(CASE, fault, interrupt_at=at, interrupt=Slip)
    assert set(names(done.case)) >= NEEDED and fault(done.case) == fault(CASE)
    assert len(done.summary.errors) == 1 and "Slip" in done.summary.errors[0]
    assert not done.summary.one_minimal and done.summary.stopped_because


def test_an_error_of_the_tool_before_the_failure_was_seen_is_raised(reduce):
    with pytest.raises(Slip):
        reduce(CASE, fault, interrupt_at=0, interrupt=Slip)


def slips(*_arguments):
    raise Slip


@pytest.mark.parametrize("rows", [slips, lambda _case: [row("a row", slips)]], ids=["rows", "an edit"])
def test_a_pass_that_raises_is_left_out_and_the_others_go_on(reduce, whole, monkeypatch, rows):
    passes = (*SIMPLIFICATIONS[:3], Pass("faulty", "", rows), *SIMPLIFICATIONS[3:])
    monkeypatch.setattr("minifier.reduction.simplify.SIMPLIFICATIONS", passes)
    done = reduce(CASE, fault, slips=True)
    assert done.case.graph == whole.case.graph and done.case.inputs == whole.case.inputs
    assert done.summary.passes == {**whole.summary.passes, "faulty": "skipped"}
    assert done.summary.needs == whole.summary.needs and done.nearest.graph == whole.nearest.graph
    assert done.summary.one_minimal and not done.summary.stopped_because
    assert all("Slip" in each for each in done.summary.errors) and done.summary.errors


STEPS = ("nearest", "save_others", "without_wrappers", "reduce_bodies", "measured_needs", "at_guilty_op")


@pytest.mark.parametrize("step", STEPS)
def test_an_error_of_a_step_that_is_not_needed_costs_the_step(reduce, monkeypatch, step):
    monkeypatch.setattr(f"minifier.reduction.reduce_case.{step}", slips)
    is_of_results = step == "at_guilty_op"
    case, needed = (chain("cos", "tanh", failing=differs()), {"tanh"}) if is_of_results else (CASE, NEEDED)
    done = reduce(case, when(has("tanh"), differs()) if is_of_results else fault, slips=True)
    assert set(names(done.case)) == needed
    assert done.summary.one_minimal and not done.summary.stopped_because and len(done.summary.errors) == 1


OTHER_BACKEND = replace(CASE.backend, ahead=("import math",))
OTHER_TERMS = {
    "through torch.compile": (replace(CASE, through_dynamo=True), False),
    "other imports": (replace(CASE, backend=OTHER_BACKEND), False),
    "other inputs": (replace(CASE, inputs=(replace(CASE.inputs[0], source=Drawn("ones")),)), False),
    "more calls": (called(CASE, 2), False),
    "another state": (replace(CASE, state=replace(CASE.state, inference=True)), False),
    "an import in each probe": (CASE, True),
}


def known_answers(folder, case, imports_in_child=False):
    """The answers about ops that a run on this Case finds; the run leaves an answer about the first op."""
    runner = ProbeRunner(PreparedCase(case, StoredTensors(None), imports_in_child), folder)
    known = runner.journal.known.verdicts
    runner.journal.end(Entry("delete", "ab12"), Verdict.PASS, 0.1)
    runner.journal.close(finished=False)
    return known


@pytest.mark.parametrize("terms", OTHER_TERMS)
def test_an_answer_counts_for_the_same_case_in_the_same_mode(folder, terms):
    known_answers(folder, CASE)
    assert known_answers(folder, CASE) == {"ab12": Verdict.PASS}
    assert known_answers(folder, *OTHER_TERMS[terms]) == {}


def test_an_answer_counts_for_the_same_values_of_stored_inputs(folder):
    case, known = replace(CASE, tensors=folder / "values"), []
    for values in (b"ahead of the call", b"ahead of the call", b"after the call"):
        case.tensors.write_bytes(values)
        known.append(known_answers(folder, case))
    assert known == [{}, {"ab12": Verdict.PASS}, {}]


def test_answers_that_no_longer_hold_are_asked_again(reduce, folder, whole):
    """What an earlier run saw may be chance, or of another backend: the result itself is seen again."""
    out = folder / "out"
    with pytest.raises(Killed):
        reduce(CASE, fault, interrupt_at=probes_of(whole) - 1, interrupt=Killed, out=out)

    reduce.sizes.clear()
    done = reduce(CASE, lambda case: fault(case, least=5), out=out)
    assert reduce.sizes[0] == len(NEEDED), "what the interrupted run had reached"
    assert done.case.inputs[0].meta.shape == (5,) and done.summary.one_minimal


def test_a_candidate_that_the_machine_did_not_survive_is_left_out(reduce, folder, whole):
    out = folder / "out"
    out.mkdir()
    fatal = with_ops(CASE, sorted(NEEDED))
    journal = Journal(out / JOURNAL)
    journal.begin([Entry("delete", Keys().of(fatal))])
    journal.close(finished=False)
    (out / BEGUN).write_text((out / BEGUN).read_text().replace('"boot": "', '"boot": "another'))
    done = reduce(CASE, fault, out=out, passes=())
    assert all(names(case) != names(fatal) for case in done.prober.asked)
    assert set(names(done.case)) > NEEDED and not done.summary.one_minimal
    assert done.summary.stopped_because


HANG = chain("cos", "sin", "exp", "tanh", "sigmoid", "relu", failing=hangs())


def test_a_reduced_hang_is_waited_for_longer(reduce):
    done = reduce(HANG, when(has("tanh"), hangs()), passes=())
    assert names(done.case) == ["tanh"] and done.case.patience == 10.0
    assert max(done.prober.limits[4:]) == 20.0, "three times the limit of two seconds, 20 seconds at the least"


@pytest.mark.parametrize("max_probes, left", [(None, 4), (9, 6)])
def test_a_graph_that_only_exceeds_the_limit_gives_way_to_one_that_lasts(reduce, max_probes, left):
    """A compilation that takes longer with each op; cut off, the search has no smaller graph that would last."""

    def exponential(case):
        seconds = (4.0 ** len(names(case)) - 1) / 10  # three ops exceed the first limit, of 3 seconds
        return hangs() if seconds > reduce.probers[-1].limits[-1] else passes(seconds=seconds)

    done = reduce(HANG, exponential, passes=(), max_probes=max_probes)
    assert len(names(done.case)) == left, "four ops take 25 seconds, three of them 6; 20 are waited for"


def test_a_backend_that_ends_where_it_gets_more_time_is_no_hang(reduce):
    with pytest.raises(NoRepro):
        reduce(HANG, when(has("tanh"), passes(seconds=9.0)), passes=())


def test_without_a_budget_a_reduction_ends_by_the_time_of_the_script(reduce, folder, whole, monkeypatch):
    """Ten times what the script takes, and some more, which here is none."""
    assert Settings().seconds_for(2.0) == 200.0 and Settings(budget=0.0).seconds_for(2.0) == 0.0
    monkeypatch.setattr("minifier.data.settings._MORE_SECONDS", 0.0)
    out = folder / "late"
    stopped = reduce(CASE, fault, out=out)
    assert names(stopped.case) == names(CASE) and stopped.summary.stopped_because and not stopped.summary.one_minimal
    monkeypatch.undo()
    assert reduce(CASE, fault, out=out).case.graph == whole.case.graph, "and it can go on"
