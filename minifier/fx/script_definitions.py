"""What the script itself defines: by which names it can be had, and a module that defines it again."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from minifier.case.literals import SCRIPT, string

FILE = "definitions.py"


def _script() -> dict[str, Any]:
    return vars(sys.modules[SCRIPT])


def expression_in_script(value: object) -> str | None:
    """An expression for the object in the script's own global names: a name, an item of a dict, list or tuple, an
    attribute of a class of the script's; None if there is none."""
    loops = _names_of_loops()
    held = {name: item for name, item in _script().items() if not name.startswith("__") and name not in loops}
    own = getattr(value, "__name__", "")
    for name in sorted(held, key=lambda name: name != own):
        if held[name] is value:
            return name
    for name, holder in held.items():
        for place, item in _held_by(holder):
            if item is value:
                return f"{name}{place}"
    return None


def _names_of_loops() -> set[str]:
    """Names that the script's loops and `with` statements bind, and nothing else in it; no definition gives them."""
    tree = _tree()
    if tree is None:
        return set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        targets = [node.target] if isinstance(node, (ast.For, ast.AsyncFor)) else []
        targets += [i.optional_vars for i in node.items if i.optional_vars] if isinstance(node, ast.With) else []
        bound |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    plain = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    return bound - {name.id for target in plain for name in ast.walk(target) if isinstance(name, ast.Name)}


def _tree() -> ast.Module | None:
    """The script's source; None if it cannot be had."""
    file = _script().get("__file__")
    return _parsed(file) if isinstance(file, str) else None


@functools.cache
def _parsed(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _held_by(holder: object) -> list[tuple[str, Any]]:
    """What an object holds, with the text that gets it from there."""
    if type(holder) is dict:
        items = [(key, item) for key, item in holder.items() if type(key) in (str, int)]
        return [(f"[{string(key) if isinstance(key, str) else key}]", item) for key, item in items]
    if type(holder) in (list, tuple):
        assert isinstance(holder, (list, tuple))
        return [(f"[{i}]", item) for i, item in enumerate(holder)]
    if isinstance(holder, type) and holder.__module__ == SCRIPT:
        return [(f".{key}", getattr(holder, key, None)) for key in vars(holder)]
    return []


def import_in_script(package: str) -> str | None:
    """The module of this package that the script's own source imports first; None if it imports none."""
    tree = _tree()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        for name in names:
            if name.partition(".")[0] == package:
                return name
    return None


def line_of_script() -> int:
    """The line of the script's own code that is being run; 0 if this thread does not run it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == SCRIPT:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def define(source: str) -> dict[str, Any]:
    """Runs the source as the script of this process; gives its names, which the module `__main__` holds from now on.
    Raises whatever the source raises."""
    module = ModuleType(SCRIPT)
    module.__dict__.update(__file__=FILE, __builtins__=__builtins__)
    sys.modules[SCRIPT] = module
    # For tracebacks, and for what reads the source of a function.
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def evaluated(expression: str, imports: Iterable[str] = ()) -> Any:
    """What the expression is in the names of the script and of these imports; raises whatever evaluating it raises."""
    names = dict(_script())
    for line in imports:
        exec(line, names)
    return eval(expression, names)
