"""Turn an exported program into a script: `minify run model.pt2 --backend NAME`."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from minifier.capturing.script import AOT_INDUCTOR, Program
from minifier.errors import UsageError

_SCRIPT = """\
import sys

import torch

sys.path[0] = {here!r}
{backend}
program = torch.export.load({path!r})
arguments, keywords = program.example_inputs
compiled = {compiled}
compiled(*arguments, **keywords)
"""
_BY_DYNAMO = "torch.compile(program.module(), backend=backend)"
_BY_AOT_INDUCTOR = "torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))"


def is_exported(target: str) -> bool:
    """Whether the target names a saved ExportedProgram."""
    return target.endswith(".pt2")


def check_exported(program: Program, backend: str | None) -> None:
    """Raise UsageError unless the program is a zip file, as exported programs are, and a backend is given."""
    path = Path(program.target)
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise UsageError(f"{path} is not an exported program: torch.export.save writes one.")
    if backend is None or program.arguments:
        raise UsageError(
            f"{path} is an exported program: say ahead of it what is to compile it, and nothing after it, as in "
            f"`minify run --backend NAME {path}`."
        )


def as_script(program: Program, backend: str, folder: Path) -> Program:
    """Write a script that compiles the exported program and calls it with its example inputs.

    `backend` is a registered name; MODULE:NAME, for a backend that the module registers or holds; or `aot_inductor`.
    """
    path = Path(program.target)
    module, _, name = backend.rpartition(":")
    definition = (
        f"import {module}\n\nbackend = getattr({module}, {name!r}, {name!r})" if module else f"\nbackend = {name!r}"
    )
    script = folder / f"{path.stem}.py"
    compiled = _BY_AOT_INDUCTOR if name == AOT_INDUCTOR else _BY_DYNAMO
    text = _SCRIPT.format(here=os.getcwd(), backend=definition, path=str(path.absolute()), compiled=compiled)
    script.write_text(text, encoding="utf-8")
    return Program(str(script), program.arguments, made_of=program.target)
