"""`minify test`: the repro of a finished run as a test for pytest."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from minifier.data.case.store import copy_atomically, write_atomically
from minifier.data.settings import Settings
from minifier.errors import ExitCode, NoRepro, UsageError
from minifier.flow.cli.console import Console
from minifier.flow.cli.running import allow_finished
from minifier.flow.prepare import prepared
from minifier.process.child import Child, run_to_end
from minifier.process.interpreters import Interpreters, clean_environment
from minifier.process.progress import Phase, Progress, Ui

_TIMEOUT_SECONDS = 900.0


def test_command(folder: Path, out: Path, interpreters: Interpreters, trust: bool = False) -> int:
    """Write the test into `out`, and print its path.

    Raises UsageError for a folder without a repro, or a test of this name that is there already; NoRepro if pytest does
    not call the test an expected failure; NotTrusted as `minify reduce` does.
    """
    with Console() as console:
        allow_finished(folder, console, trust)
        with prepared(Settings(verify=1), console, interpreters) as run:
            from minifier.repro.report.pytest_file import test_file_of
            from minifier.repro.report.write_reports import read_finished

            outcome, _ = read_finished(folder)
            test = test_file_of(outcome)
            path = out / test.name
            if path.exists():
                raise UsageError(f"{path} is there already: remove it, or give another folder with -o.")
            with tempfile.TemporaryDirectory(prefix="minify-") as place:
                trial = Path(place) / test.name
                _write(trial, test.text, test.beside)
                if importlib.util.find_spec("pytest") is None:
                    console.say("pytest is not installed here, so the test was not tried")
                else:
                    folders = outcome.minimal.folders if outcome.minimal is not None else ()
                    _try(trial, folders, run.ui)
            _write(path, test.text, test.beside)
    print(path)
    return int(ExitCode.REDUCED)


def _write(path: Path, text: str, beside: Mapping[str, Path]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, source in beside.items():
        (path.parent / name).parent.mkdir(exist_ok=True)
        copy_atomically(source, path.parent / name)
    write_atomically(path, text)


def _try(path: Path, folders: tuple[str, ...], ui: Ui) -> None:
    """Raise NoRepro unless pytest says of the test that it fails as expected."""
    ui.show(Progress(Phase.TESTING))
    (path.parent / "conftest.py").touch()  # whatever pytest finds above does not matter
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(path.parent), path.name]
    environment = clean_environment(path.parent, folders, ())
    output = path.with_suffix(".txt")
    with output.open("wb") as file:
        child = Child.launched(command, lambda: None, stdout=file, stderr=file, cwd=path.parent, env=environment)
    run_to_end(child, _TIMEOUT_SECONDS, ui.tick)
    said = output.read_text(errors="replace")
    if child.code != 0 or "1 xfailed" not in said:
        raise NoRepro(f"pytest does not call the test an expected failure:\n{said.strip()[-2000:]}")
