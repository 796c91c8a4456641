"""Errors that end a step of a run: what the run had reached stays."""

import json
import os
import signal
from dataclasses import replace

import pytest
from case_samples import small_case
from layers import sampled
from vocabulary import minified_here

from minifier.data.case import Level
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import load, save
from minifier.data.settings import Settings
from minifier.errors import ExitCode, StoppedAtOnce, StoppedEarly
from minifier.flow import repro_search
from minifier.flow.attempt import Attempt, Run, stopped_if_interrupted
from minifier.process.progress import SILENT
from minifier.repro.source import spare_definitions

pytestmark = pytest.mark.timeout(60)

CASE = replace(small_case(), level=Level.DYNAMO)


@pytest.fixture
def attempt(tmp_path):
    folder = RunFolder(tmp_path / "out")
    save(CASE, folder.case)
    return Attempt(Run(Settings()), folder, load(folder.case))


PHASES = {
    "hints": ("minifier.capturing.graph_record.hints", "reduced"),
    "check": ("minifier.reduction.reduce_case.check", "stopped"),
    "forms": ("minifier.flow.repro_search.forms_for", "reduced"),
    "report": ("minifier.repro.report.write_reports.report_of", "reduced"),
}
SCRIPT = """
import torch


def refuse(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        raise RuntimeError("no lowering for tanh")
    return gm.forward


torch.compile(lambda x: torch.tanh(torch.sin(x)) + 1, backend=refuse)(torch.randn(2, 3))
"""


def broken(*_arguments, **_more):
    raise LookupError("a slip of the tool")


@pytest.fixture
def script(tmp_path, processes):
    path = tmp_path / "failing.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.timeout(200)
@pytest.mark.parametrize("phase", sampled(PHASES, 2))
def test_an_error_in_any_phase_leaves_a_verified_repro_and_its_traceback(script, tmp_path, monkeypatch, phase):
    place, status = PHASES[phase]
    monkeypatch.setattr(place, broken)
    done = minified_here(script, tmp_path, verify=1)
    out = tmp_path / "out"
    result = json.loads((out / "result.json").read_text())
    assert done.status.value == result["status"] == status and done.verified == (1, 1)
    assert "tanh" in (out / "repro.py").read_text()
    assert result["errors"] and all("a slip of the tool" in error for error in result["errors"])
    assert "in broken" in (out / "report.md").read_text()


@pytest.mark.timeout(200)
def test_an_error_in_one_form_of_repro_leaves_the_others(script, tmp_path, monkeypatch):
    write_repro, forms = repro_search.write_repro, []

    def slips_once(case, template, *more):
        forms.append(template)
        return broken() if len(forms) == 1 else write_repro(case, template, *more)

    monkeypatch.setattr(repro_search, "write_repro", slips_once)
    done = minified_here(script, tmp_path, verify=1)
    assert done.status.value == "reduced" and done.verified == (1, 1) and len(done.errors) == 1


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_a_repro_that_cannot_be_verified_is_kept(script, tmp_path, monkeypatch):
    monkeypatch.setattr("minifier.flow.repro_search.verify", broken)
    done = minified_here(script, tmp_path, verify=1)
    out = tmp_path / "out"
    assert done.status.value == "no-repro" and "tanh" in (out / "unverified.py").read_text()
    assert not (out / "repro.py").exists() and "in broken" in (out / "report.md").read_text()


@pytest.mark.timeout(200)
def test_an_error_before_the_first_probe_of_a_script_keeps_the_script(script, tmp_path, monkeypatch):
    monkeypatch.setattr("minifier.repro.source.reduce_script.first_failure", broken)
    done = minified_here(script, tmp_path, verify=1, level="source")
    out = tmp_path / "out"
    assert done.status.value == "no-repro" and "in broken" in (out / "report.md").read_text()
    assert (out / "unverified.py").read_text() == script.read_text()


def test_the_second_interrupt_of_a_run_ends_it_with_the_exit_code_of_ctrl_c(attempt):
    codes = []
    for _ in range(2):
        with pytest.raises(StoppedEarly) as raised, stopped_if_interrupted(attempt):
            raise KeyboardInterrupt
        codes.append(raised.value.exit_code)
        attempt.run.interrupted.set()
    assert codes == [ExitCode.STOPPED, ExitCode.INTERRUPTED]


def test_ctrl_c_ends_the_search_for_spare_definitions_and_the_second_the_run(forked, monkeypatch):
    def interrupts(*_):
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()

    def searched(interrupting):
        return spare_definitions.shorten_definitions(None, Settings(), SILENT, interrupting)

    def interrupted():
        told = []
        assert searched(lambda: told.append("interrupted")) is None and told == ["interrupted"]
        with pytest.raises(StoppedAtOnce):
            searched(lambda: os.kill(os.getpid(), signal.SIGINT))
        return True

    monkeypatch.setattr(spare_definitions, "_shorten", interrupts)
    assert forked(interrupted)
