"""Every loop that waits lets time pass on the display, several times a second."""

import io
import os
import time

import pytest

from minifier.cluster.link import Cluster
from minifier.cluster.messages import Talk
from minifier.probe.children import run_children
from minifier.probe.life import Limits
from minifier.report.environment import EnvironmentCollector
from minifier.verify import Conditions, run_script


class Ticks:
    """Counts how often a loop that waits lets time pass."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.mark.parametrize("memory", [None, 2**33])
def test_waiting_for_probes_ticks(processes, tmp_path, memory):
    ticks = Ticks()
    run_children([lambda: time.sleep(1.2) or {}], Limits(30, memory), tmp_path, ticks)
    assert ticks.count >= 4


def test_waiting_for_an_interpreter_ticks(processes, tmp_path):
    script, ticks = tmp_path / "repro.py", Ticks()
    script.write_text("import time\ntime.sleep(1.2)\n")
    assert run_script(script, Conditions(None, 60), ticks).status == 0 and ticks.count >= 4


def test_waiting_for_the_environment_ticks(processes):
    ticks = Ticks()
    collector = EnvironmentCollector()
    assert "PyTorch version" in collector.text(ticks) and ticks.count >= 1


def test_waiting_for_a_cluster_ticks():
    theirs, ours = os.pipe()
    ticks = []

    def tick():
        ticks.append("tick")
        if len(ticks) == 2:
            os.write(ours, b'{"slots": 3}\n')

    try:
        assert Cluster("somewhere", Talk(theirs, ours), io.BytesIO()).wait(tick) == 3 and len(ticks) == 2
    finally:
        os.close(theirs)
        os.close(ours)
