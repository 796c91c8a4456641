"""What a candidate keeps beside the failure's fingerprint: conditions, and the script's own backends as they are."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import os
import re
import sys
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import libcst as cst
import torch
from libcst.metadata import MetadataWrapper, PositionProvider

from minifier.data.failure.frames import STDLIB_FOLDERS, own_traced_line
from minifier.reduction.probe.children import ChildEnd, tell
from minifier.repro.source.own_code import code_text, described, digest, nested_codes
from minifier.repro.source.statement_tree import definition
from minifier.torch_side.fx.script_objects import FILE
from minifier.torch_side.torch_private import (
    AskedBackend,
    as_dynamo_takes,
    asked_backend,
    compiler_for,
    observe_backend_calls,
)

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
    """A condition on candidates. `whole` are the texts of definitions that stay as they are, or go."""

    whole: tuple[str, ...] = ()

    def kept_in(self, source: str) -> tuple[str, ...]:
        """Return the names of the definitions in the source that stay as they are."""
        return ()

    def may_hold(self, source: str) -> bool:
        """Return whether a run of the source can meet the condition."""
        return True

    def holds(self, run: SourceRun) -> bool:
        """Return whether a run, which shows the fingerprint, meets the condition."""
        return True

    def accept(self, run: SourceRun) -> None:
        """Take in a source that shows the failure."""


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


TOLD = "backends"  # the key of what a child tells


class BackendWatch:
    """Watches the backend calls of this process, and tells its parent about the script's own code in them.

    `folders` hold modules that belong to the script. With `runs`, each own function that runs within a backend's call
    is told too; this slows the calls down.
    """

    def __init__(self, folders: Sequence[str], runs: bool) -> None:
        self._folders = tuple(os.path.join(folder, "") for folder in folders)
        self._runs = runs
        self._backends: dict[tuple[str, str, str], None] = {}  # name, digests of the code, and of code and data
        self._noted: dict[int, object] = {}  # by identity: backends, which have to live
        self._reached: dict[str, None] = {}  # digests of the code in these backends
        self._ran: dict[str, None] = {}  # digests of the code that ran
        self._places: dict[tuple[str, int], None] = {}  # (name, first line) of the script's definitions among both
        self._checked: set[types.CodeType] = set()

    def start(self) -> None:
        """Watch the backend calls of this process from now on."""
        observe_backend_calls(self._call)

    def is_own(self, file: str) -> bool:
        """Whether a file is the script, or a module in its folders."""
        if file == FILE:
            return True
        return file.startswith(self._folders) and "-packages" not in file and not file.startswith(STDLIB_FOLDERS)

    def _call(
        self, compiler_fn: Any, _gm: torch.fx.GraphModule, _inputs: Sequence[Any], call: Callable[[], Any]
    ) -> Callable[..., Any]:
        asked = asked_backend(compiler_fn)
        backend = compiler_fn if asked.function is None else asked.function
        if id(backend) not in self._noted:  # as it is ahead of its first call, which may change its data
            self._noted[id(backend)] = backend
            self._note(_name(asked), (asked.function, asked.options))
        with _Profiled(self._entered if self._runs else None):
            compiled: Callable[..., Any] = call()
        return self._watched(compiled) if self._runs else compiled

    def _watched(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            with _Profiled(self._entered):
                return compiled(*args)

        return run

    def _note(self, name: str, parts: tuple[Any, ...]) -> None:
        without_data, with_data, codes = described(parts, self.is_own)
        self._backends[name, digest(without_data), digest(with_data)] = None
        for code in codes:
            self._reached.update((digest(code_text(each)), None) for each in nested_codes(code))
            self._add_place(code)
        self._tell()

    def _entered(self, code: types.CodeType) -> None:
        if code in self._checked:
            return
        self._checked.add(code)
        if self.is_own(code.co_filename):
            self._ran[digest(code_text(code))] = None
            self._add_place(code)
            self._tell()

    def _add_place(self, code: types.CodeType) -> None:
        if code.co_filename == FILE:
            self._places[code.co_name, code.co_firstlineno] = None

    def _tell(self) -> None:
        """Tell all that is known, for this process may die at its next step."""
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        told = {
            "backends": list(self._backends),
            "reached": list(self._reached),
            "ran": list(self._ran),
            "places": list(self._places),
            "files": sorted(file for file in files if file != FILE and self.is_own(file)),
        }
        tell(**{TOLD: told})


class GraphsInEager:
    """Answers each backend call of this process with the graph itself: no backend compiles anything."""

    def start(self) -> None:
        """Answer all backend calls of this process from now on."""
        observe_backend_calls(lambda _compiler, gm, _inputs, _call: as_dynamo_takes(gm.forward))


class GraphsInAotEager:
    """Answers each backend call of this process with torch's `aot_eager`: AOTAutograd traces, nothing compiles."""

    def start(self) -> None:
        """Answer all backend calls of this process from now on."""
        backend = compiler_for("aot_eager", None, None, None)
        observe_backend_calls(lambda _compiler, gm, inputs, _call: as_dynamo_takes(backend(gm, inputs)))


def _name(asked: AskedBackend) -> str:
    """Return the name of a function, or of an object's class; that of inductor, which is no object."""
    if asked.function is None:
        return asked.name
    return getattr(asked.function, "__name__", None) or type(asked.function).__name__


class _Profiled:
    """Calls `entered`, if any, with the code of each Python function that this thread calls in the block."""

    def __init__(self, entered: Callable[[types.CodeType], None] | None) -> None:
        self._entered = entered

    def __enter__(self) -> None:
        self._before = sys.getprofile()
        if self._entered is not None:
            sys.setprofile(self._profile)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _profile(self, frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and self._entered is not None:
            self._entered(frame.f_code)


@dataclass(frozen=True, slots=True)
class SeenBackends:
    """The script's own code in the backends that a run called.

    backends: (name, digest of the code, digest of the code and its data) of each.
    reached: digests of the code in these backends.
    ran: digests of the code that ran within their calls.
    places: (name, first line) of the definitions with this code.
    files: the script's modules.
    """

    backends: frozenset[tuple[str, str, str]]
    reached: frozenset[str]
    ran: frozenset[str]
    places: frozenset[tuple[str, int]]
    files: tuple[str, ...]

    @classmethod
    def of(cls, end: ChildEnd) -> SeenBackends:
        """Read what the process of a run told."""
        told: Mapping[str, Any] = end.told.get(TOLD, {})
        return cls(
            frozenset((name, code, data) for name, code, data in told.get("backends", ())),
            frozenset(told.get("reached", ())),
            frozenset(told.get("ran", ())),
            frozenset((name, line) for name, line in told.get("places", ())),
            tuple(told.get("files", ())),
        )


class SameBackends(Condition):
    """A candidate calls the backends of the script, with the same code and data, and no new code runs within them.

    `second` is another run of the same script: data that differ by themselves do not count.
    """

    def __init__(self, first: SourceRun, second: SourceRun) -> None:
        seen = SeenBackends.of(first.end)
        has_same_data = seen.backends == SeenBackends.of(second.end).backends
        self._compared = slice(None if has_same_data else 2)
        self._keep(first.source, seen)

    def _keep(self, source: str, seen: SeenBackends) -> None:
        texts = [source, *filter(None, map(_text, seen.files))]
        codes = [code for text in texts for code in nested_codes(compile(text, FILE, "exec", dont_inherit=True))]
        self._seen, self._codes = seen, {digest(code_text(code)) for code in codes}
        self.whole = _definitions_at(seen.places, source)
        functions = _functions(source)
        self._wanted = {each for each in functions if (each.name, each.line) in seen.places}
        self._count = Counter(each.name for each in functions)

    @property
    def watches_runs(self) -> bool:
        """Whether own code ran that the backends themselves do not lead to, like a pass in a configuration."""
        return not self._seen.ran <= self._seen.reached

    def kept_in(self, source: str) -> tuple[str, ...]:
        """Return the names of the backends' functions in the source, those of methods with their class."""
        found = {each.text for each in _functions(source)}
        return tuple(sorted(each.path for each in self._wanted if each.text in found))

    def may_hold(self, source: str) -> bool:
        """Return whether the definitions of the backends are in the source unchanged, or gone."""
        if not self._wanted:
            return True
        functions = _functions(source)
        count, found = Counter(each.name for each in functions), {each.text for each in functions}
        return all(each.text in found or count[each.name] < self._count[each.name] for each in self._wanted)

    def holds(self, run: SourceRun) -> bool:
        """Return whether the run's backends are the script's."""
        seen = SeenBackends.of(run.end)
        compared = slice(1) if run.is_inlined else self._compared  # the same code reads its globals in another way
        known = {each[compared] for each in self._seen.backends}
        is_known = all(each[compared] in known for each in seen.backends)
        return is_known and (run.is_inlined or seen.ran <= self._codes)

    def accept(self, run: SourceRun) -> None:
        """Find the definitions again if a module's are in the place of its import."""
        if run.is_inlined:
            self._keep(run.source, SeenBackends.of(run.end))


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of a source. `path` is its name, or that of a method with its class; `text` has its decorators."""

    name: str
    path: str
    text: str
    line: int


def _functions(source: str) -> list[_Function]:
    """Return the functions of a source at all depths."""
    lines, tree = source.splitlines(), ast.parse(source)
    classes = {child: node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            line = min((node.lineno, *(each.lineno for each in node.decorator_list)))
            text = textwrap.dedent("\n".join(lines[line - 1 : node.end_lineno]))
            path = f"{classes[node]}.{node.name}" if node in classes else node.name
            found.append(_Function(node.name, path, text, line))
    return found


def _text(file: str) -> str:
    """Return the source of a module; "" if it has none, or its file is gone."""
    with contextlib.suppress(OSError):
        return importlib.util.decode_source(Path(file).read_bytes()) if file.endswith(".py") else ""
    return ""


def _definitions_at(places: Collection[tuple[str, int]], source: str) -> tuple[str, ...]:
    """Return the texts of the functions with these names that begin at these lines."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    finder = _DefinitionsAt(places)
    wrapper.visit(finder)
    return tuple(dict.fromkeys(definition(wrapper.module, node) for node in finder.found))


class _DefinitionsAt(cst.CSTVisitor):
    """Finds functions; a decorator is a function's first line."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, places: Collection[tuple[str, int]]) -> None:
        super().__init__()
        self.places, self.found = places, list[cst.FunctionDef]()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        first = node.decorators[0] if node.decorators else node
        if (node.name.value, self.get_metadata(PositionProvider, first).start.line) in self.places:
            self.found.append(node)
