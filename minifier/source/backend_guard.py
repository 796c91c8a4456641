"""Keep the backends of a script as they are, from what runs of candidates tell about them."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from minifier.fx.script_definitions import FILE
from minifier.probe.children import ChildEnd
from minifier.source.backend_watch import TOLD
from minifier.source.conditions import Condition, SourceRun
from minifier.source.own_code import code_text, digest, nested_codes
from minifier.source.tree import definition


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
