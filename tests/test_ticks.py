"""Every loop that waits lets time pass on the display, several times a second."""

import os

import pytest

from minifier.reduction.probe.children import Limits, run_children
from minifier.repro.report.environment import EnvironmentCollector
from minifier.repro.verify import Conditions, run_script


class Ticks:
    """Counts how often a loop that waits lets time pass. A reader of the file `fourth` waits for the fourth time."""

    def __init__(self, folder) -> None:
        self.count, self.fourth = 0, folder / "fourth"
        os.mkfifo(self.fourth)
        self.file = os.open(self.fourth, os.O_RDWR)

    def __call__(self) -> None:
        self.count += 1
        if self.count == 4:
            os.write(self.file, b"!\n")


@pytest.fixture
def ticks(tmp_path):
    return Ticks(tmp_path)


@pytest.mark.parametrize("memory", [None, 2**33])
def test_waiting_for_probes_ticks(processes, tmp_path, ticks, memory):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (end,) = run_children([lambda: {"read": len(os.read(ticks.file, 1))}], Limits(60, memory), scratch, ticks)
    assert end.result == {"read": 1}


def test_waiting_for_an_interpreter_ticks(processes, tmp_path, ticks):
    script = tmp_path / "repro.py"
    script.write_text(f"open({str(ticks.fourth)!r}).readline()")
    assert run_script(script, Conditions(None, 60), ticks).status == 0


def test_waiting_for_the_environment_ticks(processes, ticks):
    collector = EnvironmentCollector()
    assert "PyTorch version" in collector.text(ticks) and ticks.count >= 1
