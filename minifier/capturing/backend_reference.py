"""How a backend that was seen at work can be named in a fresh interpreter."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.capturing.object_source import as_told, first_name, option, write_object
from minifier.case import BackendReference, BackendSource
from minifier.case.literals import SCRIPT, objects_made, string
from minifier.case.values import SourceExpression
from minifier.errors import CannotSave
from minifier.fx.script_definitions import expression_in_script, import_in_script
from minifier.torch_private import (
    AskedBackend,
    Stack,
    asked_backend,
    entry_point_of,
    library_stack,
    registered_names,
    registration_stack,
)


def reference(compiler_fn: Any, ordinary_path: Sequence[str]) -> BackendReference:
    """The first way to name the backend, in the order: registered by an import, entry point, importable
    object, expression. `ordinary_path` is the import path of any interpreter of this environment."""
    asked = asked_backend(compiler_fn)
    try:
        options = None if asked.options is None else {str(k): option(v) for k, v in asked.options.items()}
        told = None if asked.function is None else as_told(asked.function)
    except CannotSave as error:
        return BackendReference(asked.name, BackendSource.NONE, reason=f"of what it is given: {error}")
    found = _by_registration(asked) if told is None else None
    found = found or _by_object(asked, told)
    if found.reach is BackendSource.NONE:
        return replace(found, mode=asked.mode, options=options, dynamic=asked.dynamic)
    given = [line for made in objects_made(options) for line in made.imports]
    tops = {line.split()[1].partition(".")[0] for line in found.imports}
    tops_given = {line.split()[1].partition(".")[0] for line in given}
    distribution, version = (found.distribution, found.version) if found.distribution else _distribution(tops, asked)
    return BackendReference(
        name=found.name,
        reach=found.reach,
        expression=found.expression,
        imports=found.imports,
        mode=asked.mode,
        options=options,
        dynamic=asked.dynamic,
        distribution=distribution,
        version=version,
        folders=folders_of(tops | tops_given, ordinary_path),
        names=found.names,
        made_by=found.made_by,
    )


def _by_registration(asked: AskedBackend) -> BackendReference | None:
    if asked.function is None:
        return BackendReference(asked.name, BackendSource.REGISTERED, string(asked.name))
    names = registered_names(asked.function)
    if asked.name in names:
        names = [asked.name]
    for name in names:
        stack = registration_stack(name)
        module = importing_module(stack) if stack else _home(asked.function)
        point = entry_point_of(name)
        by_torch = any(function == "lookup_backend" for _, function in stack)
        if point is not None and (by_torch or module is None):
            dist = point.dist
            # Where the script imports the backend's package for it, as packages say that one should, so does the repro.
            own = import_in_script(point.value.partition(":")[0].partition(".")[0])
            return BackendReference(
                name,
                BackendSource.REGISTERED if own else BackendSource.ENTRY_POINT,
                string(name),
                (f"import {own}",) if own else (),
                distribution=dist.name if dist else None,
                version=dist.version if dist else None,
            )
        if module == "torch" or (module is None and (asked.function.__module__ or "").startswith("torch.")):
            return BackendReference(name, BackendSource.REGISTERED, string(name))
        if module is not None:
            return BackendReference(name, BackendSource.REGISTERED, string(name), (f"import {module}",))
    held = expression_in_script(asked.function)
    if names and held is not None:
        return BackendReference(names[0], BackendSource.DEFINED, string(names[0]), names=(first_name(held),))
    return None


def _home(function: Any) -> str | None:
    """The module that a function is defined in, for one that was registered before this tool was there to see it: by
    far the most register what they define."""
    module = function.__module__ if inspect.isfunction(function) else ""
    return module if module in sys.modules and module != SCRIPT and not module.startswith("torch.") else None


def operator_imports(targets: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(import lines that register the custom operators among a graph's targets, the full names, like `ns::op`, of those
    that the script itself registers)."""
    found: dict[str, None] = {}
    defined: dict[str, None] = {}
    for target in targets:
        if not target.startswith("torch.ops."):
            continue
        namespace, _, name = target.removeprefix("torch.ops.").partition(".")
        stack = library_stack(namespace)
        module = importing_module(stack)
        if stack and module is None:
            defined[f"{namespace}::{name.partition('.')[0]}"] = None
        elif module not in (None, "torch"):
            found[f"import {module}"] = None
    return tuple(found), tuple(defined)


def importing_module(stack: Stack) -> str | None:
    """The module whose import ran this code: from the innermost one outwards along the imports as long as
    the package stays the same (`openvino.torch`, not the module deep below it, nor the script's own
    helper that imports it). None where no import did it."""
    modules = [module for module, function in stack if function == "<module>"]
    if not modules or modules[0] == SCRIPT:
        return None
    package = modules[0].partition(".")[0]
    found = modules[0]
    for module in modules:
        if module.partition(".")[0] != package:
            break
        found = module
    return "torch" if package == "torch" else found


def _by_object(asked: AskedBackend, told: SourceExpression | None) -> BackendReference:
    try:
        written = told or write_object(asked.function)
    except CannotSave as error:
        name = asked.name if "0x" not in asked.name else f"an instance of {type(asked.function).__qualname__}"
        return BackendReference(name, BackendSource.NONE, reason=str(error), made_by=_maker(asked.function))
    reach = BackendSource.IMPORTED if written.expression.isidentifier() else BackendSource.EXPRESSION
    reach = BackendSource.DEFINED if written.names else reach
    found = BackendReference(written.expression, reach, written.expression, written.imports, names=written.names)
    # The script's own words for such a call are better than ours.
    ours = "(" in written.expression and told is None
    return replace(found, made_by=_maker(asked.function)) if ours else found


def _maker(value: Any) -> str:
    """The function or class that made the object, which the script may call; `<lambda>` for one."""
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return str(name).partition(".")[0]


def folders_of(tops: Iterable[str], ordinary_path: Sequence[str]) -> tuple[str, ...]:
    """Folders that must be added to the import path for these top-level packages."""
    return tuple(sorted({folder for top in tops if (folder := _folder(top, ordinary_path))}))


def _folder(top: str, ordinary_path: Sequence[str]) -> str | None:
    """The folder that must be added to the import path for this package, if the ordinary path lacks it."""
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), None)
    if file is None or top in sys.stdlib_module_names:
        return None
    place = Path(file).absolute()  # not resolved: a link's own folder is the one on the path
    folder = place.parent.parent if place.name == "__init__.py" or place.is_dir() else place.parent
    on_path = {os.path.abspath(entry or ".") for entry in sys.path}
    ordinary = {os.path.abspath(entry or ".") for entry in ordinary_path}
    return str(folder) if str(folder) in on_path - ordinary else None


_packages = functools.cache(importlib.metadata.packages_distributions)


def _distribution(tops: set[str], asked: AskedBackend) -> tuple[str | None, str | None]:
    """Name and version of the installed distribution the backend comes from, where there is one."""
    home = getattr(asked.function, "__module__", "") or ""
    packages = _packages()
    for top in sorted(tops - set(sys.stdlib_module_names)) or [home.partition(".")[0]]:
        for name in packages.get(top, ()):
            return name, importlib.metadata.version(name)
    return None, None
