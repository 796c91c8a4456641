"""From a backward graph to the graph of Dynamo's that it belongs to."""

import signal
from dataclasses import replace

import pytest
from clock import wait_until
from scripts_of_training import HEAD, one_step
from vocabulary import Held, Lines, in_child, source_of

from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import load
from minifier.data.settings import Settings
from minifier.flow.attempt import Attempt, Run
from minifier.flow.keep_case import keep_case
from minifier.flow.reduce_in_child import limited
from minifier.flow.starts import reduce as reduce_case
from minifier.process.progress import PhaseClock
from minifier.reduction.summary import Summary

pytestmark = pytest.mark.timeout(600)


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


@pytest.mark.usefixtures("soak")
def test_interrupted_while_the_forward_graph_is_reduced_and_resumed(project, tmp_path):
    project.write(one_step("oddlib_trains_slowly"))
    held = Held(project, '"phase"', 5)
    process = project.start_warm("run", "--out", project.out, "--verify", "1", "failing.py", **held.environment)
    held.wait(process)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "interrupted: ending the search" in process.printed_errors(), process=process)
    held.release()
    done = project.finish(process, timeout=300)
    assert done.code == 3 and done.result["stopped_because"] and done.result["repro"], done.stderr
    assert done.result["failure"]["stage"] == "backward-compile" and done.ops[1] > 2

    again = project.minify("reduce", "--verify", "1", project.out, timeout=400)
    assert again.code == 0 and again.ops[1] == 2, again.stderr
    assert again.result["level"] == "aot-backward" and ".backward(" in again.repro
    checked = project.minify("check", project.out / "repro.py", timeout=100)
    assert checked.code == 1 and "still there" in checked.stdout

    other = project.minify(
        *("reduce", "--verify", "1", project.out / "case", "--out", tmp_path / "other", "--match", "no lowering"),
        timeout=400,
    )
    assert other.code == 0 and ".backward(" in (tmp_path / "other" / "repro.py").read_text(), other.stderr
