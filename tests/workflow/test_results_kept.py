"""The files of a run's folder: what a result is of stays, and what an earlier result was of goes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from outcomes import outcome
from vocabulary import Lines

from minifier.capturing.script import Program
from minifier.data.case.run_folder import RESULTS, RunFolder
from minifier.data.case.store import load, save
from minifier.data.settings import Settings
from minifier.errors import NoRepro, NothingToReduce, UsageError
from minifier.flow import run as module
from minifier.flow.attempt import Attempt, ReproResult, Run
from minifier.flow.folders import Asked, goes_on, note_run
from minifier.flow.run import keep_unverified, minify_case, minify_each
from minifier.process.progress import PhaseClock
from minifier.repro.emit.input_source import TENSOR_FILE
from minifier.repro.emit.repro import Repro
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
    done = replace(outcome(), repro=repro)
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


@pytest.mark.parametrize("name", ["failing", "a[1]", "what?", "*"])
def test_an_interrupted_run_is_found_by_any_name_of_its_script(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / f"{name}.py"
    script.write_text("pass\n")
    asked, folder = Asked(Program(str(script))), RESULTS / f"{name}-1"
    for other in (RESULTS / "aa-1", RESULTS / "x-1"):
        save(outcome().case, RunFolder(other).case)
    save(outcome().case, RunFolder(folder).case)
    note_run(folder, asked)
    assert goes_on(asked, SimpleNamespace(ask=lambda _question: True), False) == folder


@pytest.mark.parametrize(("hopeless", "interrupted"), [((2,), 0), ((1, 2), 0), ((1,), 0), ((), 1)])
def test_each_graph_that_has_nothing_to_reduce_is_told_of(tmp_path, monkeypatch, hopeless, interrupted):
    failing = [SimpleNamespace(number=number, call=1) for number in (1, 2)]
    found = SimpleNamespace(captured=SimpleNamespace(failing=failing, slips=()), compared=None, program=None)

    def minified(begun):
        number, run = begun
        if number in hopeless:
            raise NothingToReduce(f"reason {number}")
        if number == interrupted:
            run.interrupted.set()
        return number

    monkeypatch.setattr(module, "as_script", lambda program: program)
    monkeypatch.setattr(module, "run_observed", lambda *_: found)
    monkeypatch.setattr(module, "look_further", lambda found, _: found)
    monkeypatch.setattr(module, "failing_calls", lambda *_: failing)
    monkeypatch.setattr(module, "list_failing", lambda *_: None)
    monkeypatch.setattr(module, "call_to_reduce", lambda _found, call, _run: call)
    monkeypatch.setattr(module, "begin_with_call", lambda call, _asked, _folder, run: (call.number, run))
    monkeypatch.setattr(module, "_minify", minified)
    ui, outcomes = Lines(), []
    each = minify_each(Asked(None), Run(Settings(), PhaseClock(ui)), RunFolder(tmp_path / "out"), every=True)
    try:
        outcomes += each
    except NothingToReduce as error:
        ui.lines.append(str(error))
    said = "\n".join(ui.lines)
    assert [number for number in (1, 2) if f"reason {number}" in said] == list(hopeless)
    assert outcomes == [number for number in (1, 2) if number not in hopeless][: interrupted or None]


def test_two_reductions_of_a_case_have_a_folder_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(outcome().case, tmp_path / "a case")
    keep_case, folders = module.keep_case, []

    def keep_after_another(*arguments):
        if len(folders) == 0:
            folders.append(None)
            minify_case(tmp_path / "a case", Run(Settings()))
        return keep_case(*arguments)

    monkeypatch.setattr(module, "keep_case", keep_after_another)
    monkeypatch.setattr(module, "_minify", lambda attempt: folders.append(attempt.folder.path))
    minify_case(tmp_path / "a case", Run(Settings()))
    assert len({*folders}) == 3 and all(load(RunFolder(folder).case) for folder in folders[1:])


def test_a_folder_that_a_process_works_on_is_refused_to_others(tmp_path, monkeypatch):
    folder, tried = RunFolder(tmp_path / "out"), []
    save(outcome().case, folder.case)

    def minify(attempt):
        tried.append(attempt)
        with pytest.raises(UsageError):
            minify_case(folder.path, Run(Settings()))
        attempt.run.ending.close()

    monkeypatch.setattr(module, "_minify", minify)
    for _ in range(2):
        minify_case(folder.path, Run(Settings()))
    assert len(tried) == 2


@pytest.mark.parametrize("out", [None, "there"])
def test_an_interrupted_reduction_of_a_script_goes_on_where_it_is_told(tmp_path, monkeypatch, out):
    folders = []
    monkeypatch.setattr(module, "script_there", lambda _: Asked(Program("failing.py")))
    monkeypatch.setattr(module, "run_observed", lambda program, run: None)
    monkeypatch.setattr(module, "minify_source", lambda found, folder, run: folders.append(folder.path))
    minify_case(tmp_path, Run(Settings()), out and tmp_path / out)
    assert folders == [tmp_path / (out or "")]
