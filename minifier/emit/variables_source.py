"""Write a Case's environment variables as source.

A repro shows neither private paths nor secrets. The file that a path leads to goes next to the repro; any other private
value has to be in the environment already.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from minifier.case import State
from minifier.case.literals import literal
from minifier.case.variables import is_secret, may_be_written
from minifier.emit.files_beside import may_lie_beside, setting_of_file

_SUFFIX = re.compile(r"\.\w+")


@dataclass(frozen=True, slots=True)
class VariablesSource:
    """Statements that set variables, and what they need.

    files: the files that go next to the repro, by their names there.
    elsewhere: (name, value) of the variables whose values must not appear in a repro.
    """

    statements: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    files: dict[str, Path] = field(default_factory=dict)
    elsewhere: tuple[tuple[str, str], ...] = ()


def variables_source(state: State) -> VariablesSource:
    """Return the statements that set the Case's environment variables; they must run before torch is imported."""
    lines: list[str] = []
    files: dict[str, Path] = {}
    elsewhere: list[tuple[str, str]] = []
    for name, value in state.environment:
        if may_be_written(name, value):
            lines.append(f"os.environ[{literal(name)}] = {literal(value)}")
        elif (suffix := _suffix_of_file(name, value)) is not None:
            files[name + suffix] = Path(value)
            lines.append(setting_of_file(name, suffix))
        else:
            elsewhere.append((name, value))
    return VariablesSource(tuple(lines), ("import pathlib",) if files else (), files, tuple(elsewhere))


def _suffix_of_file(name: str, value: str) -> str | None:
    """Return the suffix of the file that a variable leads to; None if it leads to none that can go next to a repro."""
    if is_secret(name) or not name.isidentifier() or not os.path.isabs(value):
        return None
    suffix = Path(value).suffix
    return (suffix if _SUFFIX.fullmatch(suffix) else "") if may_lie_beside(Path(value)) else None
