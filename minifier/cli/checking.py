"""`minify check`: is the failure of a repro still there?"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from minifier.case import Level
from minifier.case.encode import unpack
from minifier.case.store import CASE, load
from minifier.cli.console import Console
from minifier.cli.unpacking import unpack_bundle
from minifier.emit.forms import Template
from minifier.emit.input_source import TENSOR_FILE
from minifier.errors import UsageError
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.failure.normalise import normalise
from minifier.process.progress import Phase, Progress
from minifier.verify import ScriptRun, run_script, shows

GONE, STILL_THERE, SOMETHING_ELSE = 0, 1, 125


@dataclass(frozen=True, slots=True)
class _Sought:
    """What result.json says of the failure: its fingerprint, the user's measures, and whether the script hides
    the stage at which it fails."""

    fingerprint: Fingerprint
    match: str | None
    match_log: str | None
    any_stage: bool


def check_command(given: Path, timeout: float) -> int:
    """Runs the repro once; prints what was seen."""
    try:
        if given.is_file() and (given.suffix == ".zip" or zipfile.is_zipfile(given)):
            with tempfile.TemporaryDirectory(prefix="minify-") as folder:
                return _check(unpack_bundle(given, Path(folder)), timeout)
        return _check(given / "repro.py" if given.is_dir() else given, timeout)
    except UsageError as error:
        print(f"minify: {error}", file=sys.stderr)
        return SOMETHING_ELSE


def _check(script: Path, timeout: float) -> int:
    if not script.is_file():
        begun = (script.parent / "case").is_dir()
        hint = f" `minify reduce {script.parent}` goes on with a run that was interrupted." if begun else ""
        raise UsageError(f"{script} does not exist.{hint}")
    if script.suffix != ".py":
        raise UsageError(f"{script} is not a repro: give a repro.py, the folder that holds it, or a bundle.zip.")
    if (
        TENSOR_FILE in script.read_text(encoding="utf-8", errors="replace")
        and not script.with_name(TENSOR_FILE).exists()
    ):
        raise UsageError(
            f"the repro reads values from {TENSOR_FILE}, which is not beside it: whoever made it left them out.\n"
            "`minify report FOLDER --include-data`, run where it was made, puts them into the bundle."
        )
    sought = _sought_from_result(script.with_name("result.json"), script)
    folders = _folders(script.parent / "minimal")
    fingerprint, match_log = (None, None) if sought is None else (sought.fingerprint, sought.match_log)
    with Console() as console:
        console.show(Progress(Phase.CHECKING, subject=str(script)))
        run = run_script(script, timeout, folders, fingerprint, match_log, tick=console.tick)
    if run.failure is None:
        print("the failure is gone: the script ended well")
        return GONE
    if _agrees(run, sought, script):
        print(f"still there: {_said(run.failure)}")
        return STILL_THERE
    print(f"something else happened: {_said(run.failure)}\n{run.output}", file=sys.stderr)
    if run.failure.type == "ModuleNotFoundError":
        print("minify: the folder of that module has to be on PYTHONPATH, if it is installed nowhere", file=sys.stderr)
    return SOMETHING_ELSE


def _said(failure: Failure) -> str:
    """Of a comparison what the script said, of all else the fingerprint."""
    if failure.fingerprint.stage is Stage.COMPARE:
        return f"{failure.fingerprint.message} ({' '.join(failure.message.split())})"
    return failure.fingerprint.sentence()


def _sought_from_result(path: Path, script: Path) -> _Sought | None:
    """What the result.json beside a repro says; None if there is none."""
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found: Fingerprint = unpack(Fingerprint, data["failure"]["fingerprint"])
        template = data.get("template")
        if data.get("level") == Level.SOURCE.value:  # in which it is not looked for the backend's calls
            hides_stage = True
        elif template is None:  # written by an earlier version
            hides_stage = "lookup_backend(" in script.read_text(encoding="utf-8")
        else:
            hides_stage = Template(template).hides_stage
        return _Sought(found, data.get("match"), data.get("match_log"), hides_stage)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {error}. Remove it to go by the comment in the script.") from None


def _folders(minimal: Path) -> tuple[str, ...]:
    """What the Case that the repro was made from had to have on the import path."""
    return load(minimal).folders if (minimal / CASE).exists() else ()


def _agrees(run: ScriptRun, sought: _Sought | None, script: Path) -> bool:
    assert run.failure is not None
    if sought is not None:
        return shows(run, sought.fingerprint, sought.match, any_stage=sought.any_stage)
    wanted = _error_comment(script.read_text(encoding="utf-8"))
    if wanted is None:  # a script of unknown origin: an error of the script itself is something else
        return run.failure.fingerprint.kind is not Kind.EXCEPTION or not _is_own_mistake(run.failure)
    return normalise(run.failure.line) == normalise(wanted)


def _error_comment(text: str) -> str | None:
    """The error that the comment at the end of a repro announces."""
    found = re.findall(r"^# ([\w.]+(?:: .*)?)\n# torch ", text, re.MULTILINE)
    return found[-1] if found else None


def _is_own_mistake(failure: Failure) -> bool:
    return failure.type in (
        "SyntaxError",
        "NameError",
        "ImportError",
        "ModuleNotFoundError",
        "FileNotFoundError",
    )
