"""Check a program and its options ahead of a run, before torch is imported; an exported program as a script."""

from __future__ import annotations

import os
import re
import tempfile
import tokenize
import zipfile
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from minifier.capturing.script import AOT_INDUCTOR, Program, content, file_of, find_module
from minifier.data.failure.kinds import Aspect, Tolerance
from minifier.data.settings import Settings
from minifier.data.torch_names import COMPILE_PACKAGE, LOAD_PACKAGE
from minifier.errors import UsageError
from minifier.flow.known_backends import known_names


def check_program(program: Program, level: str) -> None:
    """Raise UsageError for a program that cannot be run, or for options of it that contradict each other."""
    if program.modules and not program.backend:
        raise UsageError("--import is for a module that --backend needs: name the backend too.")
    _check_modules(program)
    if is_exported(program.target):
        check_exported(program)
        return
    if not program.is_module:
        _check_script(program)
    if program.is_redirected and level == "source":
        raise UsageError(
            "--level source reduces the script as it is, and --backend changes what compiles it: write the backend "
            "into the script instead."
        )


def _check_modules(program: Program) -> None:
    """Raise UsageError unless the modules of the program and of the backend can be found."""
    here = [os.getcwd(), str(Path(program.target).resolve().parent)]
    own = program.target if program.is_module else ""
    for module in (*program.modules, *filter(None, [program.backend.rpartition(":")[0], own])):
        top = module.partition(".")[0]
        if not all(map(str.isidentifier, module.split("."))):
            raise UsageError(f"{module!r} is no module's name, as `import` takes it.")
        if find_module(top, here) is None:
            raise UsageError(f"no module named {top} can be found from here, nor beside {program.target}.")


def misspelt_backend(program: Program) -> str:
    """Return a sentence about a backend's name that is close to another one and seen nowhere; else "". Imports nothing.

    The run goes on: what the script imports may register the name.
    """
    module, _, name = program.backend.rpartition(":")
    path = Path(file_of(module, "__init__")) if module else Path()
    source = path.read_text(encoding="utf-8", errors="replace") if path.suffix == ".py" else ""
    if not name or re.search(rf"\b{re.escape(name)}\b", f"{source}\n{program.source()}"):
        return ""
    if module:
        from minifier.capturing.slicing.cases import names_bound  # takes long

        known = sorted(names_bound(source))
    else:
        known = [*known_names(), *([AOT_INDUCTOR] if is_exported(program.target) else [])]
    near = get_close_matches(name, known, 3, 0.8) if name not in known else []
    return f"--backend {program.backend} was not found yet: did you mean {' or '.join(near)}?" if near else ""


def _check_script(program: Program) -> None:
    """Raise UsageError unless the script is readable Python source."""
    path = Path(program.target)
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name the script in it, or use -m for a module.")
    if not path.exists():
        script = path.with_name(f"{path.name}.py")
        raise UsageError(f"{path} does not exist.{f' Did you mean {script}?' if script.is_file() else ''}")
    try:
        compile(content(str(path)), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        raise UsageError(f"{path} is not valid Python: line {error.lineno}: {error.msg}.") from None
    except (ValueError, tokenize.TokenError) as error:
        raise UsageError(f"{path} is not a Python script: {error}.") from None


_MIB = 2**20
# Settings that are an option's value.
_SETTINGS = (
    "match", "match_log", "timeout", "workers", "budget", "max_probes", "include_data", "bundle_private", "compare",
    "verify", "level", "explain",
)  # fmt: skip
_UNCONDITIONAL = ("ops", "statements")  # these passes are always made


def settings_of(values: dict[str, Any]) -> Settings:
    """Return the settings for these values, by option. Raises UsageError for invalid or contradictory values."""
    for option in ("match", "match_log"):
        check_pattern("--" + option.replace("_", "-"), values[option])
    given = {name: values[name] for name in _SETTINGS if name in values}
    return Settings(
        **given,
        memory=values["memory"] * _MIB if values["memory"] is not None else None,
        measure=_tolerance(values),
        passes=None if values["passes"] is None else _check_passes("--passes", values["passes"].split(",")),
        skipped=_check_passes("--skip-pass", values["skip_pass"]),
        silent_fallbacks=values.get("fallbacks", False),
    )


def names_of_passes() -> list[str]:
    """Return the names of the passes that a run can do without."""
    from minifier.reduction.passes.table import TABLE
    from minifier.repro.source import passes as of_scripts

    return [name for name in dict((*TABLE, *of_scripts.TABLE)) if name not in _UNCONDITIONAL]


def _check_passes(option: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the stripped names. Raises UsageError for an unknown pass."""
    known = names_of_passes()
    chosen = tuple(filter(None, (name.strip() for name in names)))
    for name in chosen:
        if name in _UNCONDITIONAL:
            raise UsageError(f"{option}: the pass {name} is always made.")
        if name not in known:
            similar = get_close_matches(name, known, 1)
            hint = f" Did you mean {similar[0]}?" if similar else f" There are {', '.join(known)}."
            raise UsageError(f"{option}: there is no pass {name}.{hint}")
    return chosen


def check_pattern(option: str, pattern: str | None) -> None:
    """Raise UsageError unless the option's value is a regular expression."""
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{option} {pattern!r} is not a regular expression: {error}.") from None


def _tolerance(values: dict[str, Any]) -> Tolerance:
    rtol, atol, file = values["rtol"], values["atol"], values["predicate"]
    if (rtol is None) is not (atol is None):
        raise UsageError("--rtol and --atol go together: give both, or neither.")
    predicate = ""
    if file is not None and rtol is not None:
        raise UsageError("--predicate decides alone: leave out --rtol and --atol.")
    if file is not None:
        try:
            predicate = file.read_text(encoding="utf-8")
            code = compile(predicate, str(file), "exec", dont_inherit=True)
        except OSError as error:
            raise UsageError(f"--predicate {file} cannot be read: {error.strerror}.") from None
        except SyntaxError as error:
            raise UsageError(f"--predicate {file} is not valid Python: line {error.lineno}: {error.msg}.") from None
        except ValueError as error:
            raise UsageError(f"--predicate {file} is not Python source: {error}.") from None
        if "differs" not in code.co_names:
            raise UsageError(f"--predicate {file} does not define differs(compiled, eager).")
    return Tolerance(
        rtol, atol, tuple(Aspect(name) for name in values["ignore"]), predicate, values["compare"] == "strict"
    )


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
