"""The ops phase: the search over a Case's graph, its probes, and how it ends."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from case_samples import call, meta, method, output, placeholder
from chains import case_of, chain, names, random_tree
from fake_prober import FakeProber, has, has_node, passes, raises, run_here, targets, when
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.data.case import Ref
from minifier.data.case.ops import atoms, with_ops
from minifier.data.failure import Verdict
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe_runner import ProbeRunner
from minifier.search import Budget, Ending
from minifier.torch_side.fx.tensors import StoredTensors

OPS = ("cos", "sin", "exp", "tanh", "sigmoid", "relu", "neg", "abs")
CASE = chain(*OPS)
TANH = when(has_node("tanh"), raises())
VERDICTS = {True: Verdict.SAME, False: Verdict.PASS}


def reduced(lab, case, budget=Budget(), known=None):  # noqa: B008 - it is frozen
    """As after the check phase, which has told that the whole graph fails. `known` has answers by the ops' names."""
    answers = {lab.key_of(with_ops(CASE, ops.split())): shown for ops, shown in known or ()}
    lab.journal.known.verdicts.update({key: VERDICTS[shown] for key, shown in answers.items()})
    return reduce_ops(lab, case, budget)


# Needed ops, and for 1 and 4 workers in how many rounds they are found at most.
COSTS = {("cos",): (3, 1), ("tanh",): (4, 2), ("sin", "neg"): (10, 4), OPS: (13, 7)}


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("needed", COSTS)
def test_exactly_the_needed_ops_in_so_many_probes(make_lab, needed, workers):
    lab, prober = make_lab(CASE, when(has_node(*needed), raises()), workers)
    case, result = reduced(lab, CASE)
    assert names(case) == list(needed) and result.one_minimal
    assert len(prober.rounds) <= COSTS[needed][workers > 1] and lab.total == result.probes == len(prober.asked)


@st.composite
def planted(draw: st.DrawFn):
    """A random graph, and the nodes that the failure needs."""
    case = random_tree(Random(draw(st.integers(0, 10_000))), draw(st.integers(1, 14)))
    chosen = draw(st.lists(st.sampled_from(names(case)), min_size=1, max_size=4, unique=True))
    return case, frozenset(chosen)


def alone(case, fault, workers):
    """What the search leaves of the Case, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = PreparedCase(case, StoredTensors(None))
        prober = FakeProber(fault, workers)
        lab = ProbeRunner(prepared, Path(folder), workers=workers, make_prober=lambda *_: prober, run_jobs=run_here)
        made, result = reduced(lab, case)
        lab.journal.close(finished=True)
        return made, result


@settings(max_examples=30)
@given(planted())
def test_the_needed_ops_are_left_whatever_the_graph(problem):
    case, needed = problem
    results = [alone(case, when(has_node(*needed), raises()), workers) for workers in (1, 4)]
    for made, result in results:
        assert set(names(made)) == needed and result.one_minimal
        assert made == results[0][0]


@settings(max_examples=30)
@given(planted(), st.integers(1, 255))
def test_no_op_of_what_is_left_can_go(problem, rows):
    """Whatever makes the graph fail: each proper part with one op less was seen to pass."""
    case, chosen = problem
    places = sorted(chosen)

    def fails(part):
        row = sum(1 << place for place, name in enumerate(places) if name in names(part))
        return len(part.graph.ops) == len(case.graph.ops) or bool(rows >> row & 1 and part.graph.ops)

    made, result = alone(case, when(fails, raises()), 1)
    assert result.one_minimal and fails(made)
    left = names(made)
    assert not any(fails(with_ops(case, [n for n in left if n != gone])) for gone in left if len(left) > 1)


def test_probes_of_the_check_count(make_lab):
    lab, prober = make_lab(CASE, TANH)
    lab.probe([CASE])
    lab.probe([CASE])
    _, result = reduced(lab, CASE, Budget(max_probes=3))
    assert len(prober.asked) == 3 and result.ended is Ending.MAX_PROBES


def slow(seconds):
    """The failure of tanh, which takes so many seconds where only this op is left."""
    found = when(lambda case: names(case) == ["tanh"], raises(seconds=seconds), raises())
    return lambda case: found(case) if has_node("tanh")(case) else passes()


# Seconds of the last candidate, the first limit of time, all limits; how many ops are left.
PATIENCE = [(15.0, 2.0, {2.0, 60.0}, 1), (100.0, 2.0, {2.0, 60.0}, 2), (100.0, 30.0, {30.0, 60.0}, 2)]


@pytest.mark.parametrize(("seconds", "first", "limits", "left"), [*PATIENCE, (100.0, 90.0, {90.0}, 2)])
def test_a_proof_does_not_rest_on_what_was_given_up(make_lab, seconds, first, limits, left):
    lab, prober = make_lab(CASE, slow(seconds))
    lab.allow(first)
    made, result = reduced(lab, CASE)
    assert "tanh" in names(made) and len(names(made)) == left and result.one_minimal
    assert set(prober.limits) == limits


X4 = meta(4, storage=0)
# A view that is read after a change of its tensor: one atom.
CHANGED = case_of(
    placeholder("x", X4),
    method("view", "view", Ref("x"), -1, value=X4),
    method("add_", "add_", Ref("x"), 1, value=X4),
    call("cos", "torch.cos", Ref("view"), value=meta(4, storage=1)),
    output("add_", "cos"),
)


@pytest.mark.parametrize("needed", [("view",), ("add_",), ("view", "add_"), ("add_", "cos")])
def test_an_in_place_op_and_its_views_are_searched_apart_in_the_end(make_lab, needed):
    assert ("view", "add_") in atoms(CHANGED.graph)
    lab, _ = make_lab(CHANGED, when(has_node(*needed), raises()))
    made, result = reduced(lab, CHANGED)
    assert names(made) == list(needed) and result.one_minimal


def test_passes_are_told_whose_candidates_all_show_another_failure(reduce):
    case = chain("cos", "sin", "tanh", "exp", "abs", "floor")
    done = reduce(case, when(lambda each: len(each.graph.ops) == 6, raises(), raises("no room")))
    assert targets(done.case) == ["cos", "sin", "tanh", "exp", "abs", "floor"] and "delete" in done.summary.hidden
    done = reduce(case, when(has("tanh"), raises(), when(has("sin"), raises("no room"))))
    assert done.summary.hidden == ()
