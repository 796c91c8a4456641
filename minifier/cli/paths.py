"""Checks what the user names on the command line before anything is run or written."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tempfile
import tokenize
from pathlib import Path

from minifier.capturing.script import Program
from minifier.errors import UsageError
from minifier.workflow.run_folder import next_place


def check_program(program: Program) -> None:
    """Raises UsageError unless the script is a readable file of Python source."""
    if program.is_module:
        top = program.target.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is None:
            raise UsageError(f"no module named {top} can be found from here.")
        return
    path = Path(program.target)
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name the script in it, or use -m for a module.")
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    try:
        source = path.read_bytes()
        compile(source, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        raise UsageError(f"{path} is not valid Python: line {error.lineno}: {error.msg}.") from None
    except (ValueError, tokenize.TokenError) as error:
        raise UsageError(f"{path} is not a Python script: {error}.") from None


def output_folder(wanted: Path | None, name: str) -> Path:
    """The folder a run will write to; nothing is made yet. Raises UsageError if it cannot be used."""
    if wanted is None:
        wanted = next_place(name)
    elif wanted.exists() and not wanted.is_dir():
        raise UsageError(f"--out {wanted} is a file. Name a folder that is empty or does not exist.")
    elif wanted.is_dir() and any(_listed(wanted)):
        raise UsageError(f"--out {wanted} is not empty. Name a folder that is empty or does not exist.")
    above = wanted
    while not above.exists():
        above = above.parent
    try:  # permissions alone do not tell: the file system may be read-only, the user root
        tempfile.TemporaryDirectory(prefix=".minify-", dir=above).cleanup()
    except OSError as error:
        raise UsageError(
            f"{above} is not a folder that can be written to ({error.strerror}). Choose another with --out."
        ) from None
    return wanted.absolute()


def reserved(folder: Path, wanted: Path | None, name: str) -> Path:
    """Makes the output folder. One that nobody named and that another run has taken by now is not shared:
    the next number is."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=wanted is not None)
            return folder
        except FileExistsError:
            folder = output_folder(wanted, name)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}.") from None


def case_folder(given: Path) -> Path:
    """The Case folder meant by `given`: itself, or the case/ of a run's output folder."""
    if not given.exists():
        raise UsageError(f"{given} does not exist.")
    if not given.is_dir():
        raise UsageError(f"{given} is not a folder. Give the case/ or minimal/ folder of a run's output.")
    return given / "case" if not (given / "case.json").exists() and (given / "case").is_dir() else given
