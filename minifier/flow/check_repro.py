"""Run a repro once: does its failure still show?"""

from __future__ import annotations

import contextlib
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.data.case.files import MAX_TENSOR_BYTES, check_folder, read_text
from minifier.data.case.run_folder import typed_path
from minifier.data.case.serial import parsed, unpack
from minifier.data.case.store import CASE, load
from minifier.data.failure import Fingerprint, Kind, Stage
from minifier.data.failure.likeness import unlike
from minifier.data.failure.normalise import normalise, printable
from minifier.data.fields import regex
from minifier.errors import UsageError
from minifier.process.interpreters import Interpreters
from minifier.process.progress import Phase, Progress, Ui
from minifier.repro.emit.files_beside import MAX_FILE_BYTES, files_beside
from minifier.repro.emit.forms import Template
from minifier.repro.emit.input_source import TENSOR_FILE
from minifier.repro.verify import Conditions, ScriptRun, run_script

# Only entries of these names are extracted, and the files of which repro.py says that it reads them. `files_beside`
# returns names without slashes, so no name leads out of the folder.
_MAX_ENTRY_BYTES = {"repro.py": 2**22, "result.json": 2**24, TENSOR_FILE: MAX_TENSOR_BYTES}
_CHUNK_BYTES = 2**20

_REMOVED = re.compile("<(?:secret|e-mail|ip)>")
_ERRORS_OF_A_SCRIPT = ("SyntaxError", "NameError", "ImportError", "ModuleNotFoundError", "FileNotFoundError")


@dataclass(frozen=True, slots=True)
class CheckedRepro:
    """A run of a repro. `agrees`: its failure is the one that the repro was made for.

    `unlike` is a diff of the two failures; "" if the repro's own is not known.
    """

    run: ScriptRun
    agrees: bool
    unlike: str = ""

    @property
    def description(self) -> str:
        """The failure in a line, for a comparison with the script's own message; "" if there was none."""
        failure = self.run.failure
        if failure is None:
            return ""
        if failure.fingerprint.stage is Stage.COMPARE:
            return f"{failure.fingerprint.message} ({' '.join(failure.message.split())})"
        return failure.fingerprint.sentence()


@contextlib.contextmanager
def script_of(given: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the script of a repro.py, a folder or a bundle, and whether the user named the script itself.

    Raises UsageError for a damaged bundle, and for a link in the place of a folder.
    """
    if given.is_file() and (given.suffix == ".zip" or zipfile.is_zipfile(given)):
        with tempfile.TemporaryDirectory(prefix="minify-") as folder:
            yield unpack_bundle(given, Path(folder)), False
    elif given.is_dir():
        check_folder(given)
        yield given / "repro.py", False
    else:
        yield given, True


def check_repro(script: Path, timeout: float, interpreters: Interpreters, ui: Ui, given: Path) -> CheckedRepro:
    """Run the script in a fresh interpreter, and compare its failure with the one that the repro was made for.

    `given` is the script, its folder or its bundle, as the user named it.

    Raises UsageError for a file that is no complete repro.
    """
    _refuse_incomplete(script)
    minimal = script.parent / "minimal"
    folders = load(minimal).folders if (minimal / CASE).exists() else ()  # that its Case needs on the import path
    unknown = Conditions(None, timeout, folders, interpreters=interpreters)
    conditions = _of_result(script.with_name("result.json"), unknown)
    ui.show(Progress(Phase.CHECKING, subject=str(given)))
    run = run_script(script, conditions, ui.tick)
    agrees = run.failure is not None and _agrees(run, conditions, script)
    sought = conditions.sought
    return CheckedRepro(run, agrees, unlike(sought, run.failure, conditions.any_stage) if sought is not None else "")


def _refuse_incomplete(script: Path) -> None:
    if not script.is_file():
        is_interrupted = (script.parent / "case").is_dir()
        goes_on = f" `minify reduce {typed_path(script.parent)}` goes on with a run that was interrupted."
        raise UsageError(f"{script} does not exist.{goes_on if is_interrupted else ''}")
    if script.suffix != ".py":
        raise UsageError(f"{script} is not a repro: give a repro.py, the folder that holds it, or a bundle.zip.")
    text = script.read_text(encoding="utf-8", errors="replace")
    names = (*((TENSOR_FILE,) if TENSOR_FILE in text else ()), *files_beside(text))
    if missing := [name for name in names if not script.with_name(name).exists()]:
        raise UsageError(
            f"the repro reads {' and '.join(missing)}, which it does not lie next to: whoever made it left that out.\n"
            "`minify report FOLDER --include-data`, run where it was made, puts it into the bundle."
        )


def _of_result(path: Path, unknown: Conditions) -> Conditions:
    """Return the conditions with the failure that result.json describes; `unknown` without that file."""
    if not path.exists():
        return unknown
    try:
        data = parsed(read_text(path))
        fingerprint: Fingerprint = unpack(Fingerprint, data["failure"]["fingerprint"])
        template = data.get("template")  # a reduced script has none, and no stages: backend calls are not observed
        hides_stage = template in (None, Template.CALL_BACKEND.value)
        match, match_log = data.get("match"), data.get("match_log")
        for pattern in filter(None, (match, match_log)):
            regex(pattern)
        if _REMOVED.search(fingerprint.message):  # the message has a secret where result.json has a placeholder
            fingerprint = replace(fingerprint, any_message=True)
        fingerprint = replace(fingerprint, at_traced=False)  # a line of a package differs between its releases
        return replace(unknown, sought=fingerprint, match=match, match_log=match_log, any_stage=hides_stage)
    except (ValueError, KeyError, TypeError, OSError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {error}. Remove it to go by the comment in the script.") from None


def _agrees(run: ScriptRun, conditions: Conditions, script: Path) -> bool:
    assert run.failure is not None
    if conditions.sought is not None:
        return conditions.are_met(run)
    announced = re.findall(r"^# ([\w.]+(?:: .*)?)\n# torch ", script.read_text(encoding="utf-8"), re.MULTILINE)
    if not announced:  # of unknown origin: an error of the script itself is not the failure
        return run.failure.fingerprint.kind is not Kind.EXCEPTION or run.failure.type not in _ERRORS_OF_A_SCRIPT
    return normalise(printable(run.failure.line)) == normalise(announced[-1])


def unpack_bundle(path: Path, into: Path) -> Path:
    """Extract a repro and its files from a zip file that anybody may have made; return the script's path.

    Raises UsageError for a damaged bundle, or an entry larger than any that this tool writes.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            if "repro.py" not in bundle.namelist():
                raise UsageError(f"{path} has no repro.py: it is not a bundle, or that of a run without a repro.")
            script = into / "repro.py"
            for name in _MAX_ENTRY_BYTES:
                _extract(bundle, name, into / name)
            for name in {*files_beside(script.read_text(encoding="utf-8", errors="replace"))} - {*_MAX_ENTRY_BYTES}:
                _extract(bundle, name, into / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be unpacked: {error}. Ask for it again.") from None
    return script


def _extract(bundle: zipfile.ZipFile, name: str, to: Path) -> None:
    """Extract the entry, if the bundle has one of this name."""
    count = bundle.namelist().count(name)
    if count > 1:
        raise UsageError(f"{bundle.filename} has {name} more than once: this is no bundle of minify's.")
    if not count:
        return
    if bundle.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{name} in it is compressed in a way that minify never does.")
    remaining = limit = _MAX_ENTRY_BYTES.get(name, MAX_FILE_BYTES)
    too_large = f"{name} in it has more than {limit} bytes: no repro of minify's is so large."
    if bundle.getinfo(name).file_size > limit:
        raise UsageError(too_large)
    with bundle.open(name) as source, to.open("wb") as file:
        # The size that the zip file declares may be false.
        while chunk := source.read(min(_CHUNK_BYTES, remaining + 1)):
            remaining -= len(chunk)
            if remaining < 0:
                raise UsageError(too_large)
            file.write(chunk)
