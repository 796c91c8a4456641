"""Calls of the backend ahead of the failing one: as few as the failure needs, and each as simple as it may be."""

from dataclasses import replace

import pytest
import torch
from captured import captured
from chains import chain, names
from fake_prober import BackendProber, differs, raises, targets, when

from minifier.data.case import Call, Case
from minifier.data.case.calls import call_of
from minifier.data.failure import Stage, Verdict
from minifier.reduction.probe.children import Limits
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe.verdicts import judge
from minifier.torch_side.fx.tensors import StoredTensors

OPS = ("cos", "sin", "tanh", "relu")


def ahead(*ops: str, size: int = 4, times: int = 1) -> Call:
    return replace(call_of(chain(*ops, shape=(size, 3))), times=times)


def after(number: int) -> Case:
    """A chain that the backend gets after so many other graphs, each of them longer and called twice."""
    return chain(*OPS, before=tuple(ahead("exp", "abs", "neg", size=5 + n, times=2) for n in range(number)))


def shapes(case: Case) -> list[tuple[int, ...]]:
    return [item.meta.shape for call in case.others for item in call.inputs]


def test_as_many_calls_stay_as_the_failure_needs_and_they_are_of_its_own_graph(reduce):
    done = reduce(after(4), when(lambda case: len(case.others) >= 2 and "tanh" in targets(case), raises()))
    assert names(done.case) == ["tanh"] and done.summary.one_minimal
    assert [[node.short_target for node in call.graph.ops] for call in done.case.others] == [["tanh"], ["tanh"]]
    assert [call.times for call in done.case.others] == [1, 1]
    assert len({*shapes(done.case), done.case.inputs[0].meta.shape}) == 3, "each is compiled anew"


def test_an_op_that_a_call_ahead_must_have_stays_alone_in_its_graph(reduce):
    def needs_abs(case: Case) -> bool:
        others = [node.short_target for call in case.others for node in call.graph.ops]
        return "abs" in others and "tanh" in targets(case)

    case = replace(after(3), before=(ahead("exp"), ahead("exp", "abs", "neg", size=40), ahead("neg")))
    done = reduce(case, when(needs_abs, raises()))
    (call,) = done.case.others
    assert names(done.case) == ["tanh"] and [node.short_target for node in call.graph.ops] == ["abs"]
    assert shapes(done.case) == [(1,)], "its sizes are simplified as well"


@pytest.mark.parametrize("failing", [raises(), differs()], ids=["refused", "wrong"])
def test_a_call_of_a_graph_like_it_keeps_the_same_ops(reduce, failing):
    """As for a backend that takes the code of a graph for the key of its cache."""

    def taken_for_it(case: Case) -> bool:
        keys = [targets(replace(case, graph=call.graph)) for call in case.others]
        return targets(case) in keys and "tanh" in targets(case)

    case = chain(*OPS, failing=failing, before=(ahead("exp"), ahead(*OPS, size=5)))
    done = reduce(case, when(taken_for_it, failing))
    assert names(done.case) == ["tanh"] and done.summary.one_minimal
    assert [[node.short_target for node in call.graph.ops] for call in done.case.others] == [["tanh"]]
    assert done.summary.probes["total"] < 30


@pytest.mark.parametrize(("graphs", "needed", "left"), [(1, 2, [2]), (3, 0, [])])
def test_calls_stay_as_often_as_they_are_needed(reduce, graphs, needed, left):
    def shows(case: Case) -> bool:
        return sum(call.times for call in case.others) >= needed and "tanh" in targets(case)

    done = reduce(after(graphs), when(shows, raises()))
    assert [call.times for call in done.case.others] == left


def test_a_failure_in_a_call_ahead_is_not_the_failure_sought(tmp_path):
    graph = captured(lambda x: (x.sin() + 1).cos(), [torch.randn(3)], tmp_path)
    seen = []

    def refuses_second(gm, example_inputs):
        seen.append(gm)
        if len(seen) >= 2:
            raise RuntimeError("no lowering")
        return gm.forward

    case = replace(chain("tanh"), graph=graph.graph, inputs=graph.inputs, tensors=graph.tensors)
    prepared = PreparedCase(case, StoredTensors(case.tensors), _backend=refuses_second)
    prober = BackendProber(prepared=prepared)

    def verdict(number: int) -> Verdict:
        seen.clear()
        (end,) = prober.probe([replace(case, before=(call_of(case),) * number)], Stage.COMPILE, Limits(60.0))
        return judge(end, case.failure.fingerprint, match="no lowering").verdict

    assert [verdict(number) for number in range(3)] == [Verdict.PASS, Verdict.SAME, Verdict.INVALID]
