"""Interrupted at any probe: the best so far; begun again, the same Case as without, and nothing is asked twice."""

import contextlib
import json
from collections import Counter
from dataclasses import replace

import pytest
from chains import chain, names
from fake_prober import hangs, has, passes, raises, when

from minifier.case import Drawn
from minifier.case.ops import with_ops
from minifier.case.run_folder import JOURNAL
from minifier.errors import NoRepro
from minifier.failure import Verdict
from minifier.fx.tensors import StoredTensors
from minifier.probe.prepared_case import PreparedCase
from minifier.reduction.journal import AGAIN, BEGUN, BESIDE_THE_SEARCH, Entry, Journal, read_known
from minifier.reduction.probe_runner import ProbeRunner

CASE = chain("cos", "sin", "exp", "tanh", "sigmoid", "relu", shape=(5,))
NEEDED = {"exp", "sigmoid"}


def fault(case):
    large = any(size >= 3 for item in case.inputs for size in item.meta.shape)
    return raises() if set(names(case)) >= NEEDED and large else passes()


class Killed(BaseException):
    """The end of the process, as far as a reduction can tell."""


@pytest.fixture
def whole(reduce):
    return reduce(CASE, fault)


def asked_again(folder):
    """Candidates of the search and the passes that were answered more than once."""
    lines = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    beside = set(BESIDE_THE_SEARCH) - {"simplify", AGAIN}
    asked = Counter((line["ops"], line.get("key")) for line in lines if line["phase"] not in beside)
    return [candidate for candidate, times in asked.items() if times > 1]


def probes_of(whole):
    return len(whole.prober.asked)


def test_the_reduction_that_is_interrupted(whole):
    assert set(names(whole.case)) == NEEDED and whole.case.inputs[0].meta.shape == (3,)
    assert whole.summary.one_minimal and whole.nearest is not None and asked_again(whole.folder) == []


@pytest.mark.usefixtures("laborious")
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_at_any_probe_it_ends_with_the_same(reduce, folder, workers):
    expected = reduce(CASE, fault, workers)
    probes = probes_of(expected)
    for at in range(0, probes, 1 if workers == 1 else 5):
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
        assert done.summary.one_minimal and len(asked_again(out)) <= 1, "only the result is seen once more"
        assert not (out / BEGUN).exists()
        # Made again: three probes of the check, three of the reduced graph, the result, and what was being tried.
        assert at + len(done.prober.asked) <= probes + 3 + 3 + 1 + workers


def test_killed_again_and_again_it_comes_to_an_end(reduce, folder, whole):
    out = folder / "again"
    kills = 0
    while not (out / "minimal").exists():
        kills += 1
        with contextlib.suppress(Killed):
            reduce(CASE, fault, interrupt_at=8, interrupt=Killed, out=out)
        assert kills < probes_of(whole)
    done = reduce(CASE, fault, out=out)
    assert kills > 2 and done.case.graph == whole.case.graph and done.case.inputs == whole.case.inputs


@pytest.mark.usefixtures("laborious")
def test_interrupted_at_any_probe_it_has_the_best_so_far(reduce, folder, whole):
    sizes = []
    for at in range(3, probes_of(whole)):
        out = folder / f"interrupted-{at}"
        try:
            done = reduce(CASE, fault, interrupt_at=at, out=out)
        except KeyboardInterrupt:
            pytest.fail(f"interrupted at probe {at} it leaves nothing")
        assert fault(done.case).result == raises().result, "what is written shows the failure"
        sizes.append(len(names(done.case)))
        assert len(done.prober.asked) <= at + 1, "one probe more, to lose the user's values"
        stopped = done.summary.stopped_because
        assert stopped in ("interrupted", "interrupted after the ops were proved, before all else was simplified", "")
        assert done.summary.one_minimal is (stopped != "interrupted")
        if stopped:
            assert done.nearest is None
            again = reduce(CASE, fault, out=out)
            assert again.case.graph == whole.case.graph and again.case.inputs == whole.case.inputs
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 6 and sizes[-1] == 2


def test_an_interrupt_of_the_check_leaves_nothing(reduce, folder):
    out = folder / "out"
    with pytest.raises(KeyboardInterrupt):
        reduce(CASE, fault, interrupt_at=1, out=out)
    assert not (out / "minimal").exists()
    begun = [json.loads(line) for line in (out / BEGUN).read_text().splitlines()]
    tried = [entry for line in begun for entry in line.get("begun", ())]
    assert len(tried) == 2 and tried == [line["ended"] for line in begun if "ended" in line], "it is no fault of theirs"
    assert read_known(out / JOURNAL).skipped == ()


def test_a_failure_that_is_gone_leaves_no_list_of_probes(reduce, folder):
    out = folder / "out"
    with pytest.raises(NoRepro):
        reduce(CASE, lambda case: passes(), out=out)
    assert (out / JOURNAL).exists() and not (out / BEGUN).exists()


def test_an_earlier_run_on_other_terms_says_nothing(reduce, folder, whole):
    out = folder / "out"
    with pytest.raises(Killed):
        reduce(CASE, fault, interrupt_at=9, interrupt=Killed, out=out)
    done = reduce(CASE, fault, out=out, match="no lowering")
    assert len(done.prober.asked) == probes_of(whole)


OTHER_BACKEND = replace(CASE.backend, ahead=("import math",))
OTHER_TERMS = {
    "through torch.compile": (replace(CASE, through_dynamo=True), False),
    "other imports": (replace(CASE, backend=OTHER_BACKEND), False),
    "other inputs": (replace(CASE, inputs=(replace(CASE.inputs[0], source=Drawn("ones")),)), False),
    "more calls": (replace(CASE, calls=2), False),
    "another state": (replace(CASE, state=replace(CASE.state, inference=True)), False),
    "an import in each probe": (CASE, True),
}


def known_ops(folder, case, imports_in_child=False):
    """The answers about ops that a run on this Case finds; the run leaves an answer about the first op."""
    runner = ProbeRunner(PreparedCase(case, StoredTensors(None), imports_in_child), folder)
    known = runner.journal.known.ops
    runner.journal.end(Entry("delete", "0"), Verdict.PASS, 0.1)
    runner.journal.close(finished=False)
    return known


@pytest.mark.parametrize("terms", OTHER_TERMS)
def test_an_answer_counts_for_the_same_case_in_the_same_mode(folder, terms):
    known_ops(folder, CASE)
    assert known_ops(folder, CASE) == {"0": False}
    assert known_ops(folder, *OTHER_TERMS[terms]) == {}


def test_an_answer_counts_for_the_same_values_of_stored_inputs(folder):
    case, known = replace(CASE, tensors=folder / "values"), []
    for values in (b"ahead of the call", b"ahead of the call", b"after the call"):
        case.tensors.write_bytes(values)
        known.append(known_ops(folder, case))
    assert known == [{}, {"0": False}, {}]


def test_answers_that_no_longer_hold_are_asked_again(reduce, folder, whole):
    """What an earlier run saw may be chance, or of another backend: the result itself is seen again."""
    out = folder / "out"
    with pytest.raises(Killed):
        reduce(CASE, fault, interrupt_at=probes_of(whole) - 1, interrupt=Killed, out=out)

    def stricter(case):
        large = any(size >= 5 for item in case.inputs for size in item.meta.shape)
        return raises() if set(names(case)) >= NEEDED and large else passes()

    done = reduce(CASE, stricter, out=out)
    assert done.case.inputs[0].meta.shape == (5,) and done.summary.one_minimal


def test_a_candidate_that_the_machine_did_not_survive_is_left_out(reduce, folder, whole):
    out = folder / "out"
    out.mkdir()
    fatal = with_ops(CASE, sorted(NEEDED))
    journal = Journal(out / JOURNAL)
    journal.begin([Entry("delete", "2,4")])
    journal.close(finished=False)
    begun = out / BEGUN
    begun.write_text(begun.read_text().replace('"boot": "', '"boot": "another'))
    done = reduce(CASE, fault, out=out, passes=())
    assert all(names(case) != names(fatal) for case in done.prober.asked)
    assert set(names(done.case)) > NEEDED and not done.summary.one_minimal
    assert done.summary.stopped_because.startswith("1 candidate left out, as")


def test_a_whole_graph_that_the_machine_did_not_survive_is_not_tried_again(reduce, folder):
    out = folder / "out"
    out.mkdir()
    journal = Journal(out / JOURNAL)
    journal.begin([Entry("check", "0-5")])
    journal.close(finished=False)
    begun = out / BEGUN
    begun.write_text(begun.read_text().replace('"boot": "', '"boot": "another'))
    with pytest.raises(NoRepro, match="It is not tried again"):
        reduce(CASE, fault, out=out)
    assert begun.exists()


def test_answers_of_a_failure_that_comes_and_goes_are_worth_as_many_tries(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    for ops, verdict, tries in (("0", Verdict.PASS, 3), ("1", Verdict.PASS, 8), ("2", Verdict.SAME, 1)):
        journal.end(Entry("delete", ops), verdict, 0.1, tries=tries)
    journal.end(Entry("delete", "3"), Verdict.UNRESOLVED, 0.1)
    journal.close(finished=False)
    known = read_known(tmp_path / JOURNAL)
    assert known.of_ops(1) == {"0": False, "1": False, "2": True} and known.of_ops(5) == {"1": False, "2": True}
    assert known.counts == {Verdict.PASS: 2, Verdict.SAME: 1, Verdict.UNRESOLVED: 1}


HANG = chain("cos", "sin", "exp", "tanh", "sigmoid", "relu", failing=hangs())


def test_a_reduced_hang_is_waited_for_longer(reduce):
    done = reduce(HANG, when(has("tanh"), hangs()), passes=())
    assert names(done.case) == ["tanh"] and done.case.patience == 10.0
    assert max(done.prober.limits[4:]) == 10.0, "five times the limit of two seconds"


def test_what_ends_in_the_end_was_only_slow(reduce):
    """Two ops together hang; one of them alone takes longer than the first limit, which was too short."""

    def slow(case):
        if has("tanh", "sin")(case):
            return hangs()
        return passes(seconds=5.0) if has("tanh")(case) and len(names(case)) < 6 else passes()

    done = reduce(HANG, slow, passes=())
    assert names(done.case) == ["sin", "tanh"] and done.summary.one_minimal
    assert done.case.patience > 100


def test_a_backend_that_takes_ever_longer_is_no_hang(reduce):
    def slower(case):
        """It ends where it gets more time than before, and only there."""
        limits = reduce.probers[-1].limits
        if not has("tanh")(case):
            return passes()
        return passes(seconds=0.6 * limits[-1]) if limits[-1] == 5 * limits[-2] else hangs()

    with pytest.raises(NoRepro, match="every timeout tried was too short: the backend takes ever longer, but ends"):
        reduce(HANG, slower, passes=())
    longest = max(reduce.probers[-1].limits)
    assert longest > 1000.0, "three times more, each thirty times what was waited for before"
