"""`minify check`: is the failure of a repro still there?"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

from minifier.case import Level
from minifier.case.encode import unpack
from minifier.case.store import CASE, load
from minifier.cli.console import Console
from minifier.emit.forms import Template
from minifier.emit.input_source import TENSOR_FILE
from minifier.errors import UsageError
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.failure.normalise import normalise
from minifier.process.interpreters import Interpreters
from minifier.process.progress import Phase, Progress
from minifier.verify import Conditions, ScriptRun, run_script

GONE, STILL_THERE, SOMETHING_ELSE = 0, 1, 125

# Only entries of these names are extracted, so no name leads out of the folder.
_MAX_ENTRY_BYTES = {"repro.py": 2**22, "result.json": 2**24, TENSOR_FILE: 2**32}
_CHUNK_BYTES = 2**20


def check_command(repro: Path, timeout: float, interpreters: Interpreters | None = None) -> int:
    """Run the repro once, print its result, and return the exit code."""
    interpreters = interpreters or Interpreters()
    try:
        if repro.is_file() and (repro.suffix == ".zip" or zipfile.is_zipfile(repro)):
            with tempfile.TemporaryDirectory(prefix="minify-") as folder:
                return _check(unpack_bundle(repro, Path(folder)), timeout, interpreters)
        return _check(repro / "repro.py" if repro.is_dir() else repro, timeout, interpreters)
    except UsageError as error:
        print(f"minify: {error}", file=sys.stderr)
        return SOMETHING_ELSE


def _check(script: Path, timeout: float, interpreters: Interpreters) -> int:
    if not script.is_file():
        is_interrupted = (script.parent / "case").is_dir()
        hint = f" `minify reduce {script.parent}` goes on with a run that was interrupted." if is_interrupted else ""
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
    folders = _import_folders(script.parent / "minimal")
    unknown = Conditions(None, timeout, folders, interpreters=interpreters)
    conditions = _of_result(script.with_name("result.json"), script, unknown)
    with Console() as console:
        console.show(Progress(Phase.CHECKING, subject=str(script)))
        run = run_script(script, conditions, console.tick)
    if run.failure is None:
        print("the failure is gone: the script ended well")
        return GONE
    if _agrees(run, conditions, script):
        print(f"still there: {_describe(run.failure)}")
        return STILL_THERE
    print(f"something else happened: {_describe(run.failure)}\n{run.output}", file=sys.stderr)
    if run.failure.type == "ModuleNotFoundError":
        print("minify: the folder of that module has to be on PYTHONPATH, if it is installed nowhere", file=sys.stderr)
    return SOMETHING_ELSE


def _describe(failure: Failure) -> str:
    """Return the failure in a line, for a comparison with the script's own message."""
    if failure.fingerprint.stage is Stage.COMPARE:
        return f"{failure.fingerprint.message} ({' '.join(failure.message.split())})"
    return failure.fingerprint.sentence()


def _of_result(path: Path, script: Path, unknown: Conditions) -> Conditions:
    """Return the conditions with the failure that result.json describes; `unknown` without that file."""
    if not path.exists():
        return unknown
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        fingerprint: Fingerprint = unpack(Fingerprint, data["failure"]["fingerprint"])
        template = data.get("template")
        if data.get("level") == Level.SOURCE.value:  # no stages: backend calls are not observed
            hides_stage = True
        elif template is None:  # written by an earlier version
            hides_stage = "lookup_backend(" in script.read_text(encoding="utf-8")
        else:
            hides_stage = Template(template).hides_stage
        match, match_log = data.get("match"), data.get("match_log")
        return replace(unknown, sought=fingerprint, match=match, match_log=match_log, any_stage=hides_stage)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {error}. Remove it to go by the comment in the script.") from None


def _import_folders(minimal: Path) -> tuple[str, ...]:
    """Return the folders that the repro's Case needs on the import path."""
    return load(minimal).folders if (minimal / CASE).exists() else ()


def _agrees(run: ScriptRun, conditions: Conditions, script: Path) -> bool:
    assert run.failure is not None
    if conditions.sought is not None:
        return conditions.are_met(run)
    announced = _error_comment(script.read_text(encoding="utf-8"))
    if announced is None:  # of unknown origin: an error of the script itself is not the failure
        return run.failure.fingerprint.kind is not Kind.EXCEPTION or not _is_script_error(run.failure)
    return normalise(run.failure.line) == normalise(announced)


def _error_comment(text: str) -> str | None:
    """Return the error in the comment at the end of a repro, or None."""
    errors = re.findall(r"^# ([\w.]+(?:: .*)?)\n# torch ", text, re.MULTILINE)
    return errors[-1] if errors else None


def _is_script_error(failure: Failure) -> bool:
    return failure.type in (
        "SyntaxError",
        "NameError",
        "ImportError",
        "ModuleNotFoundError",
        "FileNotFoundError",
    )


def unpack_bundle(path: Path, into: Path) -> Path:
    """Extract a repro and its files from a zip file that anybody may have made; return the script's path.

    Raises UsageError for a damaged bundle, or an entry larger than any that this tool writes.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            names = bundle.namelist()
            if "repro.py" not in names:
                raise UsageError(f"{path} has no repro.py: it is not a bundle, or that of a run without a repro.")
            for name in _MAX_ENTRY_BYTES:
                if names.count(name) > 1:
                    raise UsageError(f"{path} has {name} more than once: this is no bundle of minify's.")
                if name in names:
                    _extract(bundle, name, into / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be unpacked: {error}. Ask for it again.") from None
    return into / "repro.py"


def _extract(bundle: zipfile.ZipFile, name: str, to: Path) -> None:
    if bundle.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{name} in it is compressed in a way that minify never does.")
    remaining = limit = _MAX_ENTRY_BYTES[name]
    with bundle.open(name) as source, to.open("wb") as file:
        # The size that the zip file declares may be false.
        while chunk := source.read(min(_CHUNK_BYTES, remaining + 1)):
            remaining -= len(chunk)
            if remaining < 0:
                raise UsageError(f"{name} in it has more than {limit} bytes: no repro of minify's is so large.")
            file.write(chunk)
