"""Check a program and its options ahead of a run, before torch is imported."""

from __future__ import annotations

import os
import tokenize
from pathlib import Path

from minifier.capturing.script import Program, content, find_module
from minifier.errors import UsageError
from minifier.workflow.exported_program import check_exported, is_exported


def check_program(program: Program, level: str) -> None:
    """Raise UsageError for a program that cannot be run, or for options of it that contradict each other."""
    if program.modules and not program.backend:
        raise UsageError("--import is for a module that --backend needs: name the backend too.")
    _check_modules(program)
    if is_exported(program.target):
        check_exported(program)
        return
    _check_script(program)
    if program.is_redirected and level == "source":
        raise UsageError(
            "--level source reduces the script as it is, and --backend changes what compiles it: write the backend "
            "into the script instead."
        )


def _check_modules(program: Program) -> None:
    """Raise UsageError unless the modules that bring the backend can be found."""
    here = [os.getcwd(), str(Path(program.target).resolve().parent)]
    for module in (*program.modules, *filter(None, [program.backend.rpartition(":")[0]])):
        top = module.partition(".")[0]
        if not all(map(str.isidentifier, module.split("."))):
            raise UsageError(f"{module!r} is no module's name, as `import` takes it.")
        if find_module(top, here) is None:
            raise UsageError(f"no module named {top} can be found from here, nor beside {program.target}.")


def _check_script(program: Program) -> None:
    """Raise UsageError unless the script is readable Python source, or the module exists."""
    if program.is_module:
        top = program.target.partition(".")[0]
        if find_module(top, [os.getcwd()]) is None:
            raise UsageError(f"no module named {top} can be found from here.")
        return
    path = Path(program.target)
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name the script in it, or use -m for a module.")
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    try:
        compile(content(str(path)), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        raise UsageError(f"{path} is not valid Python: line {error.lineno}: {error.msg}.") from None
    except (ValueError, tokenize.TokenError) as error:
        raise UsageError(f"{path} is not a Python script: {error}.") from None
