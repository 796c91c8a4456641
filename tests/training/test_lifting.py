"""The reduction of a failing backward pass, interrupted and resumed."""

import signal
from dataclasses import replace

import pytest
from clock import wait_until
from scripts_of_training import one_step
from vocabulary import Held

from minifier.data.settings import Settings
from minifier.flow.reduce_in_child import limited
from minifier.reduction.summary import Summary

pytestmark = pytest.mark.timeout(600)


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
    assert again.result["level"] == "dynamo" and ".backward(" in again.repro
    checked = project.minify("check", project.out / "repro.py", timeout=100)
    assert checked.code == 1 and "still there" in checked.stdout

    other = project.minify(
        *("reduce", "--verify", "1", project.out / "case", "--out", tmp_path / "other", "--match", "no lowering"),
        timeout=400,
    )
    assert other.code == 0 and ".backward(" in (tmp_path / "other" / "repro.py").read_text(), other.stderr
