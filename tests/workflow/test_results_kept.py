"""The files of a run's folder: what a result is of stays, and what an earlier result was of goes."""

from dataclasses import replace

import pytest
from outcomes import outcome

from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import save
from minifier.data.settings import Settings
from minifier.errors import NoRepro
from minifier.flow.attempt import Attempt, ReproResult, Run
from minifier.flow.run import keep_unverified
from minifier.repro.emit.input_source import TENSOR_FILE
from minifier.repro.emit.repro import Repro
from minifier.repro.report.outcome import Status
from minifier.repro.report.write_reports import write_reports

pytestmark = pytest.mark.timeout(60)

READS = f'values = load("{TENSOR_FILE}")\n'


@pytest.fixture
def attempt(tmp_path):
    """An attempt without a repro, whose one script reads values."""
    folder, done = RunFolder(tmp_path / "out"), outcome()
    save(done.case, folder.case)
    values = tmp_path / "values"
    values.write_bytes(b"the values")
    Repro(READS, None, values).write(folder.attempts / "repro-1")
    return Attempt(Run(Settings()), folder, done.case, error=NoRepro("no script shows it"))


def written(attempt, repro=None):
    keep_unverified(attempt)
    done = replace(outcome(), repro=repro, status=Status.NO_REPRO if repro is None else Status.REDUCED)
    write_reports(attempt.folder.path, replace(done, folder=attempt.folder.path))
    return {path.name for path in attempt.folder.path.iterdir()}


def test_the_values_that_an_unverified_script_reads_stay_beside_it(attempt):
    assert {"unverified.py", TENSOR_FILE} <= written(attempt) and "repro.py" not in written(attempt)
    text = (attempt.folder.path / TENSOR_FILE).read_text()
    assert text == "the values"


def test_a_repro_takes_the_place_of_an_unverified_script(attempt):
    written(attempt)
    repro = Repro("import torch\n", None)
    repro.write(attempt.folder.path)
    files = written(replace(attempt, error=None, repro_result=ReproResult(attempt.case, repro)), repro)
    assert "repro.py" in files and files.isdisjoint({"unverified.py", TENSOR_FILE})


def test_an_unverified_script_takes_the_place_of_an_earlier_repro(attempt):
    (attempt.folder.path / "repro.py").write_text("# Reads refused.txt in the folder in which it runs.\n")
    (attempt.folder.path / "refused.txt").touch()
    assert written(attempt).isdisjoint({"repro.py", "refused.txt"})
