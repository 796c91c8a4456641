"""Objects of the script: the names that hold them, and definitions that are run again."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from minifier.data.case.literals import SCRIPT, modules_imported, string

_NOT_FOR_REPROS = (SCRIPT, "__mp_main__", "torch", "minifier")  # packages that are not searched for a name


def home_of(value: Any) -> str:
    """Return the module that defines the object or its class."""
    return getattr(value, "__module__", None) or type(value).__module__


def in_module(value: object, module: str) -> str | None:
    """Return the first name under which the module holds the object, or None. The module may be missing."""
    members = list(getattr(sys.modules.get(module), "__dict__", {}).items())
    return next((name for name, item in members if item is value and name.isidentifier()), None)


def in_modules(value: object) -> tuple[str, str] | None:
    """Return (module, qualified name), if a module other than the script holds the object by a name.

    The object's own name in its own module comes first, then any name there, then in the module nearest to the top.
    """
    home, name = home_of(value), getattr(value, "__qualname__", None) or ""
    if home != SCRIPT and name.replace(".", "").isidentifier():
        try:
            named = functools.reduce(getattr, name.split("."), sys.modules.get(home))
        except AttributeError:
            named = None
        if named is value:
            return home, name
    for module in sorted(sys.modules, key=lambda module: (module != home, module.count("."), module)):
        if module.partition(".")[0] not in _NOT_FOR_REPROS and (held := in_module(value, module)) is not None:
            return module, held
    return None


def in_script(value: object) -> str | None:
    """Return an expression for the object in the script's globals, or None.

    Searches names, then items of dicts, lists and tuples, and attributes of the script's classes."""
    loops = _loop_names()
    variables = {name: item for name, item in _script().items() if not name.startswith("__") and name not in loops}
    preferred = getattr(value, "__name__", "")
    for name in sorted(variables, key=lambda name: name != preferred):
        if variables[name] is value:
            return name
    for name, holder in variables.items():
        for accessor, item in _members(holder):
            if item is value:
                return f"{name}{accessor}"
    return None


def _loop_names() -> set[str]:
    """Return names that only loops and `with` statements of the script bind: no definition restores them."""
    tree = tree_of_script()
    if tree is None:
        return set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        targets = [node.target] if isinstance(node, (ast.For, ast.AsyncFor)) else []
        targets += [i.optional_vars for i in node.items if i.optional_vars] if isinstance(node, ast.With) else []
        bound |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    assigned = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    return bound - {name.id for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name)}


def tree_of_script() -> ast.Module | None:
    """Return the script's syntax tree, or None without a readable source."""
    file = _script().get("__file__")
    return _parsed(file) if isinstance(file, str) else None


@functools.cache
def _parsed(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _members(holder: object) -> list[tuple[str, Any]]:
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
    """Return the first module of this package that the script's source imports, or None."""
    tree = tree_of_script()
    modules = modules_imported(tree) if tree is not None else ()
    return next((module for module in modules if module.partition(".")[0] == package), None)


def _script() -> dict[str, Any]:
    return vars(sys.modules[SCRIPT])


FILE = "definitions.py"


def notebook_shell() -> Any:
    """Return the running IPython shell, which has a notebook's cells, or None."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def cell_of(file: str) -> str:
    """Return the number of the notebook's cell whose code has this file name; "" for any other file."""
    name_of = getattr(getattr(notebook_shell(), "compile", None), "format_code_name", lambda _file: None)
    name = name_of(file)  # ("Cell", "In[3]") or None
    return name[1].strip("In[]") if name is not None else ""


_RUNS_SCRIPTS = "minifier.capturing.script"


def line_of_script() -> int:
    """Return the current line of the script's module, or 0 if this thread does not run the module.

    Below what runs the script, and its exit handlers, stands the `__main__` by which this tool was started.
    """
    for frame, line in traceback.walk_stack(sys._getframe()):
        module = frame.f_globals.get("__name__")
        if module == _RUNS_SCRIPTS:
            break
        if frame.f_code.co_name == "<module>" and module == SCRIPT:
            return line
    return 0


def define(source: str, file: str = FILE) -> dict[str, Any]:
    """Run the source as a new module `__main__`, with this `__file__`, and return its globals.

    Tracebacks name the file `FILE`. Raises whatever the source raises.
    """
    module = ModuleType(SCRIPT)
    module.__dict__.update(__file__=file, __builtins__=__builtins__)
    sys.modules[SCRIPT] = module
    for name in {FILE, file}:  # for tracebacks, and for libraries that read the source of a function or class
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def evaluated(expression: str, imports: Iterable[str] = ()) -> Any:
    """Evaluate the expression with the script's globals and these imports. Raises whatever these raise."""
    names = dict(vars(sys.modules[SCRIPT]))
    for line in imports:
        exec(line, names)
    return eval(expression, names)
