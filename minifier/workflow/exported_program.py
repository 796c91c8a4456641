"""Turn an exported program into a script: `minify run model.pt2 --backend NAME`."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

from minifier.capturing.script import AOT_INDUCTOR, Program
from minifier.errors import UsageError
from minifier.interfaces.names import COMPILE_PACKAGE, LOAD_PACKAGE

_SCRIPT = """\
import sys

import torch

sys.path.insert(0, {here!r})
{imports}
backend = {backend}
program = torch.export.load({path!r})
arguments, keywords = program.example_inputs
compiled = {compiled}
compiled(*arguments, **keywords)
"""
_BY_DYNAMO = "torch.compile(program.module(), backend=backend)"
_BY_AOT_INDUCTOR = f"{LOAD_PACKAGE}({COMPILE_PACKAGE}(program))"


def is_exported(target: str) -> bool:
    """Whether the target names a saved ExportedProgram."""
    return target.endswith(".pt2")


def check_exported(program: Program) -> None:
    """Raise UsageError unless the program is a zip file, as exported programs are, and a backend is given."""
    path = Path(program.target)
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise UsageError(f"{path} is not an exported program: torch.export.save writes one.")
    if not program.backend or program.arguments:
        raise UsageError(
            f"{path} is an exported program: say ahead of it what is to compile it, and nothing after it, as in "
            f"`minify run --backend NAME {path}`."
        )


def as_script(program: Program) -> Program:
    """Return a script that compiles an exported program and calls it with its example inputs; other programs as given.

    The program's backend may also be `aot_inductor`.
    """
    if not is_exported(program.target):
        return program
    path = Path(program.target)
    module, _, name = program.backend.rpartition(":")
    imports = [f"import {each}\n" for each in (*program.modules, *filter(None, [module]))]
    definition = f"getattr({module}, {name!r}, {name!r})" if module else repr(name)
    script = Path(tempfile.mkdtemp(prefix="exported-")) / f"{path.stem}.py"
    compiled = _BY_AOT_INDUCTOR if name == AOT_INDUCTOR else _BY_DYNAMO
    text = _SCRIPT.format(
        here=os.getcwd(), imports="".join(imports), backend=definition, path=str(path.absolute()), compiled=compiled
    )
    script.write_text(text, encoding="utf-8")
    return Program(str(script), program.arguments, made_of=program.target, backend=program.backend)
