"""Reports of a very long message are written at all: time that grew with its square would exceed the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from case_samples import small_case
from outcomes import outcome, write_run

from minifier.repro.report.write_reports import write_reports

CHARACTERS = 200_000  # some seconds of linear time; quadratic time would take minutes
UNITS = ["a", "a1:", "https://", "/a", "1.", "-----BEGIN A-----", f"tok-zebra-1 at a@b.co for {'words ' * 20}"]


@pytest.mark.timeout(100)
@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit[:20])
def test_reports_of_a_long_message(unit, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "tok-zebra-8841")
    message, failure = unit * (CHARACTERS // len(unit)), small_case().failure
    fingerprint = replace(failure.fingerprint, message=message)
    failure = replace(
        failure, fingerprint=fingerprint, message=message, traceback=f"Traceback\nE: {message}", written=message
    )
    given = outcome(failure)
    write_run(tmp_path, given)
    assert write_reports(tmp_path, replace(given, reason=message)).bundle is not None
