"""The programs of a hunt: one is a function and its arguments, made in the process that runs it."""

from __future__ import annotations

import functools
import linecache
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch


class NoSuchProgram(Exception):
    """Raised by `Program.make` if there are fewer samples of its kind."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a source knows, and can make.

    subject: the op, module or model that it tries, a row of the table. variant: the dtype, a column. number: which of
    their samples. `make` returns the program, made anew each time. It draws from generators that are seeded before.
    `has_kin`: wrong results of programs of this subject are one failure, as far as is known ahead of a reduction.
    `behind` are the numbers of known failures whose ops run in eager mode, none for the program itself. `script` is the
    file of a program that is a script (scripts.py): it is run as a whole, and `make` is not called.
    """

    subject: str
    variant: str
    number: int
    make: Callable[[], Call]
    source: str = ""
    has_kin: bool = True
    behind: tuple[int, ...] = ()
    script: Path | None = None

    @property
    def kin(self) -> str:
        """What programs of one failure have in common, where the failure says little: the subject, or the name."""
        return self.subject if self.has_kin else self.name

    @property
    def name(self) -> str:
        """The name, by which a hunt that goes on knows what it has tried."""
        return name_of(self.source, self.subject, self.variant, self.number)


def name_of(source: str, subject: str, variant: str, number: int) -> str:
    """Return the name of a program: `ops: add float32 0`."""
    return " ".join(filter(None, (source and f"{source}:", subject, variant, str(number))))


@dataclass(frozen=True, slots=True)
class Call:
    """A function of tensors alone, its source, the tensors to call it with, and the modules that it calls.

    `shows` are the numbers of known failures whose ops run in eager mode in it. `these_alone` is the same function with
    all other ops in eager mode instead.
    """

    function: Callable[..., Any]
    source: str
    tensors: list[torch.Tensor]
    modules: tuple[torch.nn.Module, ...] = ()
    shows: tuple[int, ...] = ()
    these_alone: Callable[..., Any] | None = None


class Source(Protocol):
    """A plug-in that knows programs."""

    def __call__(self, wanted: ProgramFilter) -> Iterator[Program]:
        """Yield the programs, in the order in which they are to be tried: a sample of everything comes first."""


@dataclass(frozen=True, slots=True)
class ProgramFilter:
    """What is asked of a source: names that have the regular expression `only` in them, dtypes, samples of each.

    `broken` are (operator, dtype) pairs that have failed by themselves: `compose` leaves them out.
    """

    only: str = ""
    dtypes: tuple[str, ...] = ("float32",)
    samples: int = 1
    training: bool = False
    dynamic: bool = False
    broken: frozenset[tuple[str, str]] = frozenset()

    def has(self, subject: str) -> bool:
        """Whether the subject is wanted."""
        return re.search(self.only, subject) is not None


def seed_generators() -> None:
    """Seed every generator that a sample may be drawn from."""
    torch.manual_seed(0)
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)


_FILE = "<program of the hunt>"
_LITERALS = (bool, int, float, str, type(None), torch.dtype)


class Writer:
    """Writes a function of tensors alone. What else it reads are its globals."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.names: dict[str, Any] = {"torch": torch}
        self._lines: list[str] = []

    def tensor(self, value: torch.Tensor) -> str:
        """Add a parameter, and return its name."""
        self.tensors.append(value)
        return f"tensor_{len(self.tensors)}"

    def call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        operand: Callable[[torch.Tensor], str] | None = None,
    ) -> str:
        """Return the text of a call. `operand` gives that of a tensor, which is by default a new parameter."""
        written = functools.partial(self._written, operand=operand or self.tensor)
        arguments = [*map(written, args), *(f"{key}={written(value)}" for key, value in kwargs.items())]
        return f"{self._constant(function, getattr(function, '__name__', ''))}({', '.join(arguments)})"

    def _written(self, value: Any, operand: Callable[[torch.Tensor], str]) -> str:
        if isinstance(value, torch.Tensor):
            return operand(value)
        if type(value) in (tuple, list):
            items = ", ".join(self._written(each, operand) for each in value)
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
        if type(value) in _LITERALS and not (isinstance(value, float) and not math.isfinite(value)):
            return repr(value)
        return self._constant(value, "constant")

    def _constant(self, value: Any, prefix: str) -> str:
        prefix = prefix if prefix.isidentifier() else "function"
        name = next((known for known, other in self.names.items() if other is value), f"{prefix}_{len(self.names)}")
        self.names[name] = value
        return name

    def assign(self, text: str, number: int | None) -> list[str]:
        """Add a line that gives a name to the result of a call, or to each item of so many; return the names."""
        first = len(self._lines)
        names = [f"value_{first}_{n}" for n in range(number)] if number is not None else [f"value_{first}"]
        targets = f"({', '.join(names)},)" if number is not None else names[0]
        self._lines.append(f"{targets} = {text}")
        return names

    def finished(self, name: str, result: str) -> Call:
        """Return the function, which returns `result`."""
        parameters = ", ".join(f"tensor_{n}" for n in range(1, len(self.tensors) + 1))
        body = "".join(f"    {line}\n" for line in [*self._lines, f"return {result}"])
        source = f"def program({parameters}):\n{body}"
        file = f"{_FILE[:-1]}: {name}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), self.names)  # made of reprs of plain values alone
        modules = tuple(each for each in self.names.values() if isinstance(each, torch.nn.Module))
        return Call(self.names["program"], source, self.tensors, modules)


def call_of(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Return a call whose function is written for these arguments: tensors come in, everything else stands in it."""
    writer = Writer()
    return writer.finished(name, writer.call(function, args, kwargs))
