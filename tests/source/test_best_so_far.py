"""The best script so far survives any error of the tool, and the death of the process that reduces."""

import json
import os
import signal

import pytest

from minifier.capturing.script import Program
from minifier.data.case import EAGER
from minifier.data.settings import Settings
from minifier.process.progress import SILENT
from minifier.repro.source import reduce, reduce_script
from minifier.repro.source.passes import SourcePass
from minifier.repro.source.probe import SourceLab

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("processes")]

SCRIPT = """\
import torch

print("started")
unneeded = 1

def f(x):
    torch._dynamo.graph_break()
    return x

torch.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
"""
ASKED = 4  # questions that are answered: the check of the whole script is the first


def failing_lab(fail):
    class FailingLab(SourceLab):
        asked = 0

        def holds(self, sources):
            self.asked += 1
            if self.asked > ASKED:
                fail()
            return super().holds(sources)

    return FailingLab


def no_space():
    raise OSError(28, "No space left on device")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return Program(str(path))


def no_key():
    raise KeyError("no such name")


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("error", "traces"), [(no_space, 0), (no_key, 1), (dies, 0)])
def test_an_error_leaves_the_best_so_far(program, tmp_path, monkeypatch, error, traces):
    monkeypatch.setattr(reduce_script, "SourceLab", failing_lab(error))
    reduced = reduce_script.reduce_script(program, tmp_path / "out", Settings(), SILENT)
    assert not reduced.minimal and reduced.summary.stopped_because and len(reduced.summary.errors) == traces
    assert "graph_break()" in reduced.text(EAGER) and "started" not in reduced.text(EAGER)


def test_an_error_of_a_pass_is_in_the_journal_and_the_report(program, tmp_path, monkeypatch):
    def lister(located):
        raise TypeError("no such node")

    monkeypatch.setattr(reduce, "LAST_PASSES", (SourcePass("faulty", "", lister),))
    reduced = reduce_script.reduce_script(program, tmp_path / "out", Settings(), SILENT)
    (warning,), (trace,) = reduced.summary.notes, reduced.summary.errors
    assert reduced.minimal and "faulty" in warning and "no such node" in trace and "in lister" in trace
    entries = map(json.loads, (tmp_path / "out" / "journal.jsonl").read_text().splitlines())
    assert [entry["warning"] for entry in entries if "warning" in entry] == [warning]
