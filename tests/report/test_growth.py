"""The time that reports take grows with the length of a message, whatever the message is made of."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import small_case

from minifier.case.store import save
from minifier.emit.repro import Repro
from minifier.report.finished import write_reports
from minifier.report.outcome import Outcome, Status

SHORT, FACTOR = 4_000, 8  # characters; quadratic time would grow by the factor's square
GENEROUS = 3  # times as much as linear growth
MIN_SECONDS = 0.05  # of the shorter message, below which clocks are coarse
PROGRAM = "import oddlib\n"
UNITS = ["a", "a1:", "https://", "/a", "1.", "-----BEGIN A-----", f"tok-zebra-1 at a@b.co for {'words ' * 20}"]


def seconds_for(folder: Path, message: str) -> float:
    """Write the reports of a run whose failure has this message everywhere; return the processor time."""
    folder.mkdir()
    case = small_case()
    fingerprint = replace(case.failure.fingerprint, message=message)
    texts = {"message": message, "traceback": f"Traceback\nE: {message}", "written": message}
    case = replace(case, failure=replace(case.failure, fingerprint=fingerprint, **texts))
    save(case, folder / "case")
    save(case, folder / "minimal")
    (folder / "repro.py").write_text(PROGRAM)
    outcome = Outcome(Status.REDUCED, case, case, None, Repro(PROGRAM, None), None, message, 1.0, 2.0)
    begun = time.process_time()
    write_reports(folder, outcome)
    return time.process_time() - begun


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit[:20])
def test_reports_take_linear_time(unit, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "tok-zebra-8841")
    short = seconds_for(tmp_path / "short", unit * (SHORT // len(unit)))
    long = seconds_for(tmp_path / "long", unit * (FACTOR * SHORT // len(unit)))
    assert long < GENEROUS * FACTOR * max(short, MIN_SECONDS)
