"""The programs of a hunt: one is a function and its arguments, made in the process that runs it."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch


class NoSuchProgram(Exception):
    """Raised by `Program.make` if there are fewer samples of its kind."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a source knows, and can make.

    subject: the op, module or model that it tries, a row of the table. variant: the dtype, a column. number: which of
    their samples. `make` returns the program, made anew each time. It draws from generators that are seeded before.
    """

    subject: str
    variant: str
    number: int
    make: Callable[[], Call] = field(compare=False)

    @property
    def name(self) -> str:
        """The name, by which a hunt that goes on knows what it has tried."""
        return name_of(self.subject, self.variant, self.number)


def name_of(subject: str, variant: str, number: int) -> str:
    """Return the name of a program: `add float32 0`."""
    return " ".join(filter(None, (subject, variant, str(number))))


@dataclass(frozen=True, slots=True)
class Call:
    """A function of tensors alone, its source, and the tensors to call it with."""

    function: Callable[..., Any]
    source: str
    tensors: list[torch.Tensor]


class Source(Protocol):
    """A plug-in that knows programs."""

    def __call__(self, wanted: Wanted) -> Iterator[Program]:
        """Yield the programs, in the order in which they are to be tried: a sample of everything comes first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a source: names that have the regular expression `only` in them, dtypes, samples of each."""

    only: str = ""
    dtypes: tuple[str, ...] = ("float32",)
    samples: int = 1
    training: bool = False

    def has(self, subject: str) -> bool:
        """Whether the subject is wanted."""
        return re.search(self.only, subject) is not None


_FILE = "<program of the hunt>"
_LITERALS = (bool, int, float, str, type(None), torch.dtype)


def call_of(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Return a call whose function is written for these arguments: tensors come in, everything else stands in it."""
    tensors: list[torch.Tensor] = []
    names: dict[str, Any] = {"torch": torch, "function": function}

    def written(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return f"tensor_{len(tensors)}"
        if type(value) in (tuple, list):
            items = ", ".join(map(written, value))
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
        if isinstance(value, _LITERALS) and not (isinstance(value, float) and not math.isfinite(value)):
            return repr(value)
        constant = f"constant_{len(names)}"
        names[constant] = value
        return constant

    arguments = ", ".join([*map(written, args), *(f"{key}={written(value)}" for key, value in kwargs.items())])
    parameters = ", ".join(f"tensor_{n}" for n in range(1, len(tensors) + 1))
    source = f"def program({parameters}):\n    return function({arguments})\n"
    file = f"{_FILE[:-1]}: {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)  # made of reprs of plain values alone
    return Call(names["program"], source, tensors)
