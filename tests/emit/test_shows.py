"""Every form of script shows the failure, three of them in a fresh interpreter, and ends well with a right backend."""

from dataclasses import replace
from pathlib import Path

import pytest
from failing_cases import CASES
from forked_script import run_forked
from layers import sampled

from minifier.data.case import BackendReference, BackendSource
from minifier.repro.emit.forms import forms_for
from minifier.repro.emit.repro import write_repro
from minifier.repro.verify import Conditions, run_script

EXAMPLES = str(Path(__file__).parents[1] / "cases")
RIGHT = BackendReference("eager", BackendSource.REGISTERED, '"eager"')
pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("processes")]


def repro_of(case):
    return write_repro(case, *forms_for(case)[0])


FRESH = ("values", "backward", "flaky")  # run by an interpreter of their own


@pytest.mark.parametrize("name", sampled(CASES, 5))
def test_the_script_shows_the_failure(name, tmp_path):
    case = CASES[name]
    repro = repro_of(case)
    path = repro.write(tmp_path)
    sought = case.failure.fingerprint
    conditions = Conditions(sought, 60, (EXAMPLES,), any_stage=repro.template.hides_stage)
    run = run_script(path, conditions) if name in FRESH else run_forked(path, sought, path=(EXAMPLES,))
    assert conditions.are_met(run), f"{repro.text}\n{run.failure}\n{run.output}"


@pytest.mark.parametrize("name", sampled(CASES, 5))
def test_the_script_ends_well_where_the_backend_does(name, tmp_path):
    case = CASES[name]
    repro = repro_of(replace(case, backend=RIGHT))
    run = run_forked(repro.write(tmp_path), case.failure.fingerprint, path=(EXAMPLES,))
    assert (run.status, run.failure) == (0, None), f"{repro.text}\n{run.output}"
