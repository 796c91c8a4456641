"""Plain data as Python source."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from minifier.data.case.graph import Ref, leaves
from minifier.data.case.values import Constant, Imported, Size, SourceExpression

SCRIPT = "__main__"  # the module of a running script
OF_SCRIPT = f"{SCRIPT}:"  # prefix of paths to the script's own definitions


def _plain_ref(ref: Ref) -> str:
    return ref.name


def literal(value: Any, ref: Callable[[Ref], str] = _plain_ref) -> str:
    """Return an argument as handwritten source: `torch.float32`. For slices in brackets see `index`."""

    def source(item: Any) -> str:
        return literal(item, ref)

    if isinstance(value, Ref):
        return ref(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex) and "n" in repr(value):  # of inf or nan
        return f"complex({source(value.real)}, {source(value.imag)})"
    if isinstance(value, Constant):
        return repr(value.name) if value.kind == "device" else f"torch.{value.name}"
    if isinstance(value, SourceExpression):
        return value.expression
    if isinstance(value, Imported):
        return value.path.removeprefix(OF_SCRIPT).replace(":", ".")
    if isinstance(value, Size):
        return f"torch.Size([{', '.join(map(source, value.items))}])"
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(source, value))}]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(source, value))) + "}" if value else "set()"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source(key)}: {source(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({source(value.start)}, {source(value.stop)}, {source(value.step)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, str):
        return string(value)
    return repr(value)


def objects_made(value: Any) -> list[SourceExpression]:
    """Return the source expressions inside a value."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, SourceExpression)]


def imported_paths(value: Any) -> list[str]:
    """Return the paths of the functions, classes and enum members in a value that a script must import."""
    return [leaf.path for leaf in leaves(value) if isinstance(leaf, Imported)]


def imports_of(value: Any) -> list[str]:
    """Return the import lines that a value's source needs beside `import torch`."""
    modules = [module_of(path) for path in imported_paths(value) if not path.startswith(OF_SCRIPT)]
    of_objects = [line for made in objects_made(value) for line in made.imports]
    return [*(f"import {module}" for module in modules if module != "torch"), *of_objects]


WITHOUT = "without "  # begins a change that leaves a line out


def setting_statement(setting: tuple[str, str, Any]) -> str:
    """Return the line that makes a (module, key, value) setting: `torch._inductor.config.pattern_matcher = False`."""
    module, key, value = setting
    return f"{module}.{key} = {literal(value)}"


def imports_of_config(config: Iterable[tuple[str, str, Any]]) -> list[str]:
    """Return the import lines that the assignments of these (module, key, value) settings need."""
    return [line for module, _, value in config for line in (f"import {module}", *imports_of(value))]


def modules_imported(source: str | ast.Module) -> list[str]:
    """Return the full names of the modules that the source's import statements name, without relative ones."""
    modules = []
    for node in ast.walk(ast.parse(source) if isinstance(source, str) else source):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.append(node.module)
    return modules


def packages_imported(*sources: str) -> set[str]:
    """Return the top-level modules that the import statements of these sources or lines name."""
    return {module.partition(".")[0] for source in sources for module in modules_imported(source)}


def script_names(value: Any) -> list[str]:
    """Return the names of the script itself that a value needs."""
    made = [name for source in objects_made(value) for name in source.names]
    return list(dict.fromkeys([*made, *names_in(imported_paths(value))]))


def names_in(paths: Iterable[str]) -> list[str]:
    """Return the names of the script itself that these paths begin with."""
    own_paths = [path.removeprefix(OF_SCRIPT) for path in paths if path.startswith(OF_SCRIPT)]
    return list(dict.fromkeys(re.split(r"\W", path)[0] for path in own_paths))


def module_of(path: str) -> str:
    """Return the module to import for a path; `torch` for anything of torch."""
    if ":" in path:
        return path.partition(":")[0]
    return "torch" if path.startswith("torch.") else path.rpartition(".")[0]


def string(value: str) -> str:
    """Return the literal in double quotes, as formatters do."""
    text = repr(value)
    if text.startswith("'") and '"' not in text:
        text = '"' + text[1:-1].replace("\\'", "'") + '"'
    return text


def index(value: Any, ref: Callable[[Ref], str] = _plain_ref) -> str:
    """Return the source inside a subscript's brackets: slices with colons, tuples without parentheses."""
    if isinstance(value, slice):
        bounds = ["" if bound is None else literal(bound, ref) for bound in (value.start, value.stop, value.step)]
        return ":".join(bounds[: 2 if not bounds[2] else 3])
    if isinstance(value, tuple) and value:
        items = (index(item, ref) if isinstance(item, slice) else literal(item, ref) for item in value)
        return ", ".join(items) + ("," if len(value) == 1 else "")
    return literal(value, ref)
