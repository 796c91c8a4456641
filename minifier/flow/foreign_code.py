"""Code in a folder that this user's minify did not write on this machine, and how it is shown ahead of running it."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from minifier.data.case.files import is_made_here, is_own_repro, read_bytes
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import CASE, FINISHED, GRAPH, RECORD, RESULT, is_own, read_json
from minifier.data.failure.normalise import printable
from minifier.flow.folders import RUN_FILE, SOURCE, is_own_run, is_own_source
from minifier.repro.emit.files_beside import contents_beside

Row = tuple[str, str]
"""Where code goes, and the code: ("import lines", "import torch")."""

_MAX_CHARACTERS = 300  # of a row
_IMPORTS, _BACKEND, _EXPRESSIONS, _FUNCTIONS = "import lines", "backend", "expressions", "functions of the graph"
_DEFINITIONS, _PREDICATE, _SETTINGS = "definitions", "predicate", "settings"
_VARIABLES, _PATH, _SCRIPT, _LINKS = "environment variables", "import path", "script", "links, not followed"
_RECORD = "record of the run"
_ORDER = (_LINKS, _SCRIPT, _RECORD, _IMPORTS, _BACKEND, _DEFINITIONS, _PREDICATE, _EXPRESSIONS, _PATH, _VARIABLES)
_ORDINARY = ("torch.", "operator.", "math.", "_operator.")  # functions to name last


def foreign_code_in(folder: Path) -> list[Row]:
    """Return what `minify reduce` might run of each file in the folder that has no mark of this user; [] without any.

    Symbolic links count as foreign: this tool makes none.
    """
    rows: list[Row] = []
    for parent, folders, files in os.walk(folder):
        place = Path(parent)
        rows += [(_LINKS, str(place / name)) for name in (*folders, *files) if (place / name).is_symlink()]
        if CASE in files and not is_own(place):
            rows += [*_code_of_case(read_json(place / CASE)), *_code_of_graph(read_json(place / GRAPH))]
        if RUN_FILE in files and not is_own_run(place):
            rows += _code_of_run(read_json(place / RUN_FILE))
        if SOURCE in files and not is_own_source(place):
            source = read_json(place / SOURCE)
            rows.append((_DEFINITIONS, _definitions(source.get("source") if isinstance(source, dict) else None)))
    return rows


def foreign_code_of(script: Path) -> list[Row]:
    """Return what `minify check` might run of a repro in a folder, unless it has this user's mark."""
    text = read_bytes(script)
    minimal = RunFolder(script.parent).minimal
    rows: list[Row] = []
    beside = contents_beside(script, text.decode(errors="replace"))
    if not is_own_repro(read_json(script.with_name(RESULT)), text, beside):
        rows += [
            (_SCRIPT, f"{name}, {_counted(len(content.splitlines()))}")
            for name, content in {script.name: text, **beside}.items()
        ]
    if (minimal / CASE).exists() and not is_own(minimal):
        rows += [row for row in _code_of_case(read_json(minimal / CASE)) if row[0] == _PATH]
    return rows


def foreign_code_of_run(folder: Path) -> list[Row]:
    """Return what a command might run of the output folder of a finished run, unless it has this user's marks."""
    rows = [*foreign_code_in(folder), *foreign_code_of(folder / "repro.py")]
    if not is_made_here(RECORD, read_json(folder / FINISHED)):
        rows.append((_RECORD, f"{FINISHED}, with the form of the repro and the class of its exception"))
    return rows


def shown(rows: Iterable[Row]) -> str:
    """Return the rows as lines of printable text, each kind of code in one line, without repetition."""
    by_kind: dict[str, dict[str, None]] = {}
    for kind, code in rows:
        by_kind.setdefault(kind, {})[printable(code, kept="")] = None
    kinds = sorted(by_kind, key=lambda kind: _ORDER.index(kind) if kind in _ORDER else len(_ORDER))
    return "\n".join(f"  {kind}: {_shortened(list(by_kind[kind]))}" for kind in kinds)


def _shortened(items: list[str]) -> str:
    """Join as many items as fit; the first one is cut if it is too long."""
    items = sorted(items, key=lambda item: item.startswith(_ORDINARY))
    text, number = items[0][:_MAX_CHARACTERS] + ("..." if len(items[0]) > _MAX_CHARACTERS else ""), 1
    while number < len(items) and len(text) + len(items[number]) <= _MAX_CHARACTERS:
        text, number = f"{text}; {items[number]}", number + 1
    return text if number == len(items) else f"{text}; and {len(items) - number} more"


def _code_of_case(value: Any) -> Iterator[Row]:
    """Yield the code in case.json."""
    yield from _expressions(value)
    for name, content in (pair for item in _objects(value) for pair in item.items()):
        if name in ("imports", "ahead"):
            yield from ((_IMPORTS, line) for line in _strings(content))
        elif name == "before":
            yield from _functions(content)
        elif name == "expression":
            yield _BACKEND, str(content)
        elif name == "definitions" and content:
            yield _DEFINITIONS, _definitions(content)
        elif name == "predicate" and content:
            yield _PREDICATE, _definitions(content)
        elif name in ("folders", "path"):
            yield from ((_PATH, folder) for folder in _strings(content))
        elif name == "environment" and isinstance(content, list):
            yield from ((_VARIABLES, "=".join(map(str, pair))) for pair in content if isinstance(pair, list))
        elif name in ("config", "switches", "autocast"):
            yield _SETTINGS, json.dumps(content)


def _code_of_graph(value: Any) -> Iterator[Row]:
    """Yield the code in graph.json."""
    yield from _functions(value)
    yield from _expressions(value)


def _functions(value: Any) -> Iterator[Row]:
    """Yield the functions that graphs call, and the classes of their modules."""
    for item in _objects(value):
        if item.get("op", "call_function") == "call_function" and "target" in item:
            yield _FUNCTIONS, str(item["target"])
        if item.get("is") in ("Module", None) and "type" in item:
            yield _FUNCTIONS, str(item["type"])


def _expressions(value: Any) -> Iterator[Row]:
    """Yield the objects and expressions among arguments and options."""
    for item in _objects(value):
        if "object" in item:
            yield _FUNCTIONS, str(item["object"])
        if isinstance(made := item.get("made"), list) and len(made) == 3:
            yield _EXPRESSIONS, str(made[0])
            yield from ((_IMPORTS, line) for line in _strings(made[1]))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each JSON object at or below the value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _definitions(source: Any) -> str:
    """Return the names of the source's classes and functions, and its number of lines."""
    text = str(source)
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statements = []
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [statement.name for statement in statements if isinstance(statement, kinds)]
    return ", ".join([*names, _counted(len(text.splitlines()))])


def _counted(lines: int) -> str:
    return f"{lines} line{'s' * (lines != 1)}"


def _code_of_run(record: Any) -> Iterator[Row]:
    """Yield the command of run.json, the backend for it, and the modules that register this backend."""
    record = record if isinstance(record, dict) else {}
    module = ["-m"] if record.get("is_module") else []
    yield _SCRIPT, " ".join(["python", *module, str(record.get("target")), *_strings(record.get("arguments"))])
    if record.get("backend"):
        yield _BACKEND, str(record["backend"])
    yield from ((_IMPORTS, f"import {name}") for name in _strings(record.get("modules")))
