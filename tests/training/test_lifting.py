"""From a backward graph to the graph of Dynamo's that it belongs to."""

from dataclasses import replace

import pytest
from scripts_of_training import HEAD, OPS, one_step
from vocabulary import Lines, in_child, source_of

from minifier.data.case import Drawn
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import load
from minifier.data.settings import Settings
from minifier.flow.attempt import Attempt, Run
from minifier.flow.keep_case import keep_case
from minifier.flow.reduce_in_child import limited
from minifier.flow.run import reduced as reduce_case
from minifier.process.progress import PhaseClock
from minifier.reduction.summary import Summary

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def reduced(bureau):
    """`reduced(captured)` has the first failure reduced: (what was found, what was said, the output folder)."""

    def reduce(captured, **settings):
        number, forward = captured.failing[0].number, captured.failing[0].forward
        out, ui = RunFolder(bureau.folder / "out"), Lines()

        def work():
            case = keep_case(bureau.graphs / str(number), out.path, forward)
            run = Run(Settings(**settings), PhaseClock(ui))
            return reduce_case(Attempt(run, out, case)).reduced, ui.lines

        return (*in_child(work, bureau.folder, 200), out.path)

    return reduce


def test_the_forward_graph_is_reduced_in_the_place_of_its_backward_graph(bureau, reduced):
    captured = bureau.capture(one_step("oddlib_trains"))
    assert len(bureau.case(1).graph.ops) == OPS
    found, _, out = reduced(captured)
    assert [node.target for node in found.minimal.graph.ops] == ["torch.tanh"] and found.minimal.backward
    assert load(out / "minimal").graph == found.minimal.graph
    assert found.summary.ops_before == len(load(out / "case").graph.ops) and found.summary.one_minimal


@pytest.mark.soak
def test_values_of_a_backward_pass_at_run_time_are_not_all_zero(bureau, reduced):
    captured = bureau.capture(one_step("oddlib_trains", stage="run"))
    found, _, out = reduced(captured)
    assert [node.target for node in found.minimal.graph.ops] == ["torch.tanh"]
    assert {item.source for item in load(out / "case" / "forward").inputs} == {Drawn("randn")}


def test_a_graph_of_dynamos_that_was_not_written_down(bureau, reduced):
    captured = bureau.capture(one_step("oddlib_trains"))
    (bureau.graphs / "1" / "case.json").unlink()
    found, _, out = reduced(captured)
    assert not RunFolder(out).has_forward and found.minimal.level.value == "aot-backward"
    assert [node.target for node in found.minimal.graph.ops] == ["torch.ops.aten.tanh_backward.default"]


@pytest.mark.soak
def test_a_forward_graph_that_cannot_be_called_costs_nothing_that_there_is(bureau, reduced):
    captured = bureau.capture(one_step("oddlib_trains"))
    forward = bureau.graphs / "1" / "graph.json"
    forward.write_text(forward.read_text().replace("torch.tanh", "oddlib.nowhere"))
    found, _, _ = reduced(captured)
    assert found.minimal.level.value == "aot-backward"


@pytest.mark.soak
def test_a_backward_graph_that_does_not_show_it_is_not_needed(bureau, reduced):
    captured = bureau.capture(one_step("oddlib_trains"))
    backward = bureau.graphs / "2" / "graph.json"
    backward.write_text(backward.read_text().replace("aten.tanh_backward", "aten.sigmoid_backward"))
    found, _, out = reduced(captured)
    assert [node.target for node in found.minimal.graph.ops] == ["torch.tanh"]
    assert load(out / "minimal").level.value == "dynamo"


def test_graphs_kept_beside_a_case_go_where_it_goes(bureau):
    bureau.capture(HEAD + source_of('x.odd_mark = True\ntorch.compile(f, backend="oddlib_lowers")(x, w)\n'))
    keep_case(bureau.graphs / "1", bureau.folder / "out", forward=1)
    aten = load(bureau.folder / "out" / "case" / "aten")
    assert aten.level.value == "aot-forward" and RunFolder(bureau.folder / "out").has_forward
    assert aten.failure.message == "no lowering for aten.tanh" and aten.state.grad


def test_what_is_left_of_the_limits():
    done = Summary(9, 1, 1, 1, {"total": 30}, True, "", 40.0)
    assert limited(Settings(), done) == Settings()
    assert limited(Settings(budget=100.0, max_probes=100), done) == Settings(budget=60.0, max_probes=70)
    assert limited(Settings(budget=30.0, max_probes=31), done) == Settings(budget=1.0, max_probes=16)
    assert limited(Settings(), replace(done, stopped_because="interrupted")).max_probes == 16


@pytest.mark.soak
def test_a_gradient_that_is_summed_up_twice_keeps_what_joins_the_sums(bureau, reduced):
    """The backend fails for two biases: the addition that joins them has no op in the backward graph."""
    text = """
    import torch, oddlib.training
    def g(x, v, w):
        for _ in range(8):
            x = torch.sin(x)
        return torch.cos((x + v).view(8, 4) + w)
    v, w = torch.zeros(8, requires_grad=True), torch.zeros(4, requires_grad=True)
    torch.compile(g, backend="oddlib_trains_two_sums")(torch.randn(4, 8), v, w).sum().backward()
    """
    found, said, _ = reduced(bureau.capture(source_of(text)))
    assert found.minimal.backward and len(found.minimal.graph.ops) <= 4, said
