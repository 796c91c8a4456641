"""What a candidate keeps beside the failure's fingerprint: conditions, and what a run tells for them."""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch

from minifier.data.failure.frames import STDLIB_FOLDERS, own_traced_line
from minifier.reduction.probe.children import ChildEnd, tell
from minifier.repro.source.statement_tree import texts_of
from minifier.torch_side.fx.script_objects import FILE
from minifier.torch_side.torch_private.dynamo import (
    as_dynamo_takes,
    asked_backend,
    compiler_for,
    observe_backend_calls,
)

# Keys of what a child tells.
BACKENDS = "backends"  # (name, file, line) of the script's own functions in each backend, or (name, "", 0)
CALLS = "calls"  # the stacks of the script's functions in which compiled code called a backend
EXIT = "exit"  # the stacks of the exceptions with which the script exits
DRAWN = "drawn"  # {generator that drew numbers: digest of its state at the end}
DRAWS_AS_EAGER = "draws as eager"  # whether torch's generator is left in the state in which eager mode leaves it
_LINE_NUMBER = re.compile(r"line \d+")


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A run of a source. `is_inlined`: it has definitions of a module in the place of the module's import."""

    source: str
    end: ChildEnd
    is_inlined: bool = False

    @property
    def links(self) -> Sequence[dict[str, Any]]:
        """The exceptions of the run."""
        links: Sequence[dict[str, Any]] = (self.end.result or {}).get("links", ())
        return links


class Condition:
    """A condition on candidates. `frozen` are the texts of statements that no edit changes."""

    frozen: frozenset[str] = frozenset()

    def kept_in(self, source: str) -> tuple[str, ...]:
        """Return the names of the backends' definitions in the source, which are frozen."""
        return ()

    def may_hold(self, source: str) -> bool:
        """Return whether a run of the source can meet the condition."""
        return True

    def holds(self, run: SourceRun) -> bool:
        """Return whether a run, which shows the fingerprint, meets the condition."""
        return True

    def accept(self, run: SourceRun) -> None:
        """Take in a source that shows the failure."""


class Kept(Condition):
    """These statements stay, by their texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.frozen = frozenset(texts)

    def may_hold(self, source: str) -> bool:
        """Return whether the source has them all."""
        return self.frozen <= {text for _, text in texts_of(source)}


class SameDraws(Condition):
    """Compiled code draws eager's random numbers, once a candidate does: inductor's own numbers are no wrong value."""

    def __init__(self) -> None:
        self._is_met = False

    def holds(self, run: SourceRun) -> bool:
        """Return whether the run drew like eager mode, if that is known to be possible. A run without control may."""
        return not self._is_met or bool(run.end.told.get(DRAWS_AS_EAGER, True))

    def accept(self, run: SourceRun) -> None:
        """Look whether the run drew like eager mode."""
        self._is_met = self._is_met or bool(run.end.told.get(DRAWS_AS_EAGER))


class SameEvidence(Condition):
    """The messages of the exceptions, without numbers of lines, and the script's functions on their stacks are equal.

    Runs of one failure with the same graph, inputs and code agree in all of this, other numbers included.
    """

    def __init__(self, first: SourceRun) -> None:
        self._first = self._evidence(first)

    def holds(self, run: SourceRun) -> bool:
        """Return whether the run says the same."""
        return self._evidence(run) == self._first

    @staticmethod
    def _evidence(run: SourceRun) -> object:
        return [
            (
                _LINE_NUMBER.sub("line", link["message"]),
                [frame[1] for frame in link["frames"] if frame[0] == "__main__"],
            )
            for link in run.links
        ]


class SameLine(Condition):
    """The line of the script that Dynamo was tracing is the first run's, or what edits made of this line.

    If the line is gone, a new line stands for it that resembles it more than any other line that is gone. A line that
    the script had elsewhere does not.
    """

    def __init__(self, first: SourceRun) -> None:
        self._line = _without_comment(own_traced_line(first.links))
        self._accepted = {self._line}
        self._last = self._known = _lines(first.source)

    def holds(self, run: SourceRun) -> bool:
        """Return whether Dynamo failed at this line."""
        line, lines = _without_comment(own_traced_line(run.links)), _lines(run.source)
        if line in self._accepted or not line or not self._line:
            return line in self._accepted
        if line in self._known or self._line in lines:
            return False
        return _likeness(line, self._line) >= max(_likeness(line, gone) for gone in {self._line, *self._last - lines})

    def accept(self, run: SourceRun) -> None:
        """Follow the line to its new form."""
        self._line = _without_comment(own_traced_line(run.links))
        self._accepted.add(self._line)
        self._last = _lines(run.source)
        self._known = self._known | self._last


def _lines(source: str) -> set[str]:
    return {_without_comment(line) for line in source.splitlines()}


def _without_comment(line: str) -> str:
    return line.partition("  #")[0].strip()


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


class SameSeeds(Condition):
    """Random numbers that the script seeds stay seeded: its check may fail for some numbers only."""

    def __init__(self, first: SourceRun) -> None:
        self._seeded = generators_seeded(first.source)

    def holds(self, run: SourceRun) -> bool:
        """Return whether the run drew no numbers from a generator that lost its seed."""
        return self._seeded.isdisjoint(run.end.told.get(DRAWN, {}).keys() - generators_seeded(run.source))


_GENERATORS = {"random": {"random"}, "numpy": {"numpy"}, "np": {"numpy"}, "torch": {"torch"}}


def generators_seeded(source: str) -> set[str]:
    """Return the generators that the script seeds, by functions like `torch.manual_seed` or `transformers.set_seed`."""
    functions = (ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    every = set().union(*_GENERATORS.values())
    return set().union(*(_GENERATORS.get(path.split(".")[0], every) for path in functions if "seed" in path))


class BackendWatch:
    """Watches the backend calls of this process, and tells its parent where they come from and whose code they run.

    `folders` hold modules that belong to the script. `instead` is a backend of torch that compiles all graphs, if any.
    """

    def __init__(self, folders: Sequence[str] = (), instead: str = "") -> None:
        self._folders = tuple(os.path.join(folder, "") for folder in folders)
        self._instead = instead
        self._backends: dict[tuple[str, str, int], None] = {}
        self._calls: dict[tuple[tuple[str, int], ...], None] = {}

    def start(self) -> None:
        """Watch the backend calls of this process from now on."""
        observe_backend_calls(self._call)

    def is_own(self, file: str) -> bool:
        """Whether a file is the script, or a module in its folders."""
        if file == FILE:
            return True
        return file.startswith(self._folders) and "-packages" not in file and not file.startswith(STDLIB_FOLDERS)

    def _call(
        self, compiler_fn: Any, gm: torch.fx.GraphModule, inputs: Sequence[Any], call: Callable[[], Any]
    ) -> Callable[..., Any]:
        asked, frame, stack = asked_backend(compiler_fn), sys._getframe(), list[tuple[str, int]]()
        while frame is not None:
            stack += [(frame.f_code.co_name, frame.f_lineno)] if frame.f_code.co_filename == FILE else []
            frame = frame.f_back  # type: ignore[assignment]
        codes = [each.__code__ for each in _functions((asked.function, asked.options), {})]
        places = [(c.co_name, c.co_filename, c.co_firstlineno) for c in codes if self.is_own(c.co_filename)]
        self._backends |= dict.fromkeys(places or [(asked.name, "", 0)])
        self._calls[tuple(reversed(stack))] = None
        tell(**{BACKENDS: list(self._backends), CALLS: list(self._calls)})  # this process may die in the call
        compiled: Callable[..., Any]
        if self._instead:
            compiled = as_dynamo_takes(compiler_for(self._instead, None, None, None)(gm, inputs))
        else:
            compiled = call()
        return compiled


_MAX_OBJECTS = 1000  # that are looked through for the functions of a backend
_Seen = dict[int, object]


def _functions(value: Any, seen: _Seen) -> Iterator[types.FunctionType]:
    """Yield the functions in a backend: in closures, arguments of a `partial`, containers, attributes and classes."""
    if id(value) in seen or len(seen) > _MAX_OBJECTS or isinstance(value, (torch.nn.Module, torch.Tensor)):
        return
    seen[id(value)] = value
    held: Sequence[Any]
    if isinstance(value, types.FunctionType):
        yield value
        held = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
    elif isinstance(value, types.MethodType):
        held = value.__func__, value.__self__
    elif isinstance(value, functools.partial):
        held = value.func, value.args, value.keywords
    elif isinstance(value, dict):
        held = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        held = list(value)
    elif isinstance(value, (staticmethod, classmethod)):
        held = (value.__func__,)
    elif isinstance(value, type):
        held = list(vars(value).values())
    elif isinstance(value, types.ModuleType) or not hasattr(value, "__dict__"):
        held = ()
    else:
        held = type(value), vars(value)
    for each in held:
        yield from _functions(each, seen)
