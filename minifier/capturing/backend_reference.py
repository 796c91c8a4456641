"""Write a reference to a called backend, by which a fresh interpreter finds it, and note what its code reads."""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from minifier.capturing.object_source import first_name, from_own_attribute, importable, option, write_object
from minifier.data.case import BackendReference, BackendSource
from minifier.data.case.literals import SCRIPT, imports_of, packages_imported, string
from minifier.data.case.values import SourceExpression
from minifier.data.torch_names import AOT_BACKEND
from minifier.errors import CannotSave
from minifier.process.distributions import names_by_package
from minifier.torch_side.fx.script_objects import import_in_script, in_script
from minifier.torch_side.torch_private import dynamo, registrations


def reference(compiler_fn: Any, ordinary_path: Sequence[str]) -> BackendReference:
    """Return the first possible reference, in the order: registered by an import, entry point, importable object,
    expression.

    `ordinary_path` is the import path of any interpreter of this environment.
    """
    asked = dynamo.asked_backend(compiler_fn)
    try:
        options = None if asked.options is None else {str(k): option(v) for k, v in asked.options.items()}
        own_source = None if asked.function is None else from_own_attribute(asked.function)
    except CannotSave as error:
        return BackendReference(asked.name, BackendSource.NONE, reason=f"of what it is given: {error}")
    backend = _by_registration(asked) if own_source is None else None
    backend = backend or _by_object(asked, own_source)
    backend = replace(backend, mode=asked.mode, options=options, dynamic=asked.dynamic)
    packages = packages_imported(*backend.imports)
    if not backend.distribution:
        distribution, version = _distribution(packages, asked)
        # A backend that the script makes may be an object of torch's, put together from the script's parts.
        if distribution != "torch" or backend.reach not in (BackendSource.DEFINED, BackendSource.NONE):
            backend = replace(backend, distribution=distribution, version=version)
    if backend.reach is BackendSource.ENTRY_POINT:  # which is not found without the folder, though nothing is imported
        packages |= {asked.function.__module__.partition(".")[0]}
    if backend.reach is BackendSource.NONE:  # the script's own call may make it
        return backend
    return replace(backend, folders=folders_of(packages | packages_imported(*imports_of(options)), ordinary_path))


def _by_registration(asked: dynamo.AskedBackend) -> BackendReference | None:
    if asked.function is None:
        return BackendReference(asked.name, BackendSource.REGISTERED, string(asked.name))
    names = registrations.registered_names(asked.function)
    if asked.name in names:
        names = [asked.name]
    for name in names:
        stack = registrations.registration_stack(name)
        module = importing_module(stack) if stack else _home(asked.function)
        point = registrations.entry_point_of(name)
        by_torch = any(function == "lookup_backend" for _, function in stack)
        if point is not None and (by_torch or module is None):
            dist = point.dist
            # If the script imports the backend's package, as many packages ask for, so does the repro.
            own = import_in_script(point.value.partition(":")[0].partition(".")[0])
            return BackendReference(
                name,
                BackendSource.REGISTERED if own else BackendSource.ENTRY_POINT,
                string(name),
                (f"import {own}",) if own else (),
                distribution=dist.name if dist else None,
                version=dist.version if dist else None,
            )
        is_of_torch = not stack and _is_of_torch(asked.function)
        if module == "torch" or (module is None and is_of_torch):
            return BackendReference(name, BackendSource.REGISTERED, string(name))
        if module is not None:
            return BackendReference(name, BackendSource.REGISTERED, string(name), (f"import {module}",))
    expression = in_script(asked.function)
    # A backend that a module holds is imported from there, although the script registers it.
    if names and expression is not None and importable(asked.function) is None:
        return BackendReference(names[0], BackendSource.DEFINED, string(names[0]), names=(first_name(expression),))
    return None


def _home(function: Any) -> str | None:
    """Guess the registration module of a backend that was registered before minify observed registrations.

    Return the module that defines the function: nearly all modules register functions of their own.
    """
    module = function.__module__ if inspect.isfunction(function) else ""
    return module if module in sys.modules and module != SCRIPT and not module.startswith("torch.") else None


def _is_of_torch(backend: Any) -> bool:
    """Whether torch defines the function or the object's class; of an `aot_autograd(...)`, whether torch holds it."""
    if dynamo.aot_autograd_arguments(backend) is None:
        return (backend.__module__ or "").startswith("torch.")
    held = importable(backend)
    return held is not None and held.imports == ("import torch",)


def operator_imports(targets: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return how the custom operators among a graph's targets get registered.

    These are import lines, and the full names, like `ns::op`, of the operators registered by the script.
    """
    imports: dict[str, None] = {}
    defined: dict[str, None] = {}
    for target in targets:
        if not target.startswith("torch.ops."):
            continue
        namespace, _, name = target.removeprefix("torch.ops.").partition(".")
        operator = f"{namespace}::{name.partition('.')[0]}"
        stack = registrations.operator_stack(operator)
        module = importing_module(stack)
        if module == "torch":  # `import torch` had not defined it
            module = next(name for name, function in stack if function == "<module>")
        if module is not None:
            imports[f"import {module}"] = None
        elif stack:
            defined[operator] = None
    return tuple(imports), tuple(defined)


def importing_module(stack: registrations.Stack) -> str | None:
    """Return the module whose import ran this code: in the innermost importer's package, the outermost importer.

    For example `openvino.torch`: neither its submodule nor the script's helper that imports the package. None if no
    import ran the code.
    """
    modules = [module for module, function in stack if function == "<module>"]
    if not modules or modules[0] == SCRIPT:
        return None
    package = modules[0].partition(".")[0]
    outermost = modules[0]
    for module in modules:
        if module.partition(".")[0] != package:
            break
        outermost = module
    return "torch" if package == "torch" else outermost


def _by_object(asked: dynamo.AskedBackend, own_source: SourceExpression | None) -> BackendReference:
    try:
        source = own_source or write_object(asked.function)
    except CannotSave as error:
        name = asked.name if "0x" not in asked.name else f"an instance of {type(asked.function).__qualname__}"
        return BackendReference(name, BackendSource.NONE, reason=str(error), made_by=_maker(asked.function))
    reach = BackendSource.IMPORTED if source.expression.isidentifier() else BackendSource.EXPRESSION
    reach = BackendSource.DEFINED if source.names else reach
    # The script's own call is better than our reconstructed one.
    made_by = _maker(asked.function) if "(" in source.expression and own_source is None else ""
    is_held = reach is BackendSource.IMPORTED and len(source.imports) == 1  # `from acme.backend import compiler`
    name = f"{source.imports[0].split()[1]}:{source.expression}" if is_held else source.expression
    return BackendReference(name, reach, source.expression, source.imports, names=source.names, made_by=made_by)


def _maker(value: Any) -> str:
    """Return the name of the function or class that made the object, or `<lambda>`."""
    if dynamo.aot_autograd_arguments(value) is not None:
        return AOT_BACKEND
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__).partition(".")[0]


def folders_of(packages: Iterable[str], ordinary_path: Sequence[str]) -> tuple[str, ...]:
    """Return the folders that the import path needs for these top-level packages, beyond the ordinary path."""
    return tuple(sorted({folder for package in packages if (folder := _folder(package, ordinary_path))}))


def _folder(package: str, ordinary_path: Sequence[str]) -> str | None:
    module = sys.modules.get(package)
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), None)
    if file is None or package in sys.stdlib_module_names:
        return None
    path = Path(file).absolute()  # not resolved: the import path has the symbolic link's folder
    folder = path.parent.parent if path.name == "__init__.py" or path.is_dir() else path.parent
    on_path = {os.path.abspath(entry or ".") for entry in sys.path}
    ordinary = {os.path.abspath(entry or ".") for entry in ordinary_path}
    return str(folder) if str(folder) in on_path - ordinary else None


def _distribution(packages: set[str], asked: dynamo.AskedBackend) -> tuple[str | None, str | None]:
    """Return name and version of the installed distribution that has the backend, or (None, None)."""
    home = getattr(asked.function, "__module__", "") or ""
    for package in sorted(packages - set(sys.stdlib_module_names)) or [home.partition(".")[0]]:
        for name in names_by_package().get(package, ()):
            return name, importlib.metadata.version(name)
    return None, None


_MAX_READS = 1000  # variables and files that are noted
_MAX_NAMED = 12  # of a backend
_MAX_FRAMES = 300  # of the stack of a read
# Modules that read files for the interpreter, not for the code that calls them.
_READERS_OF_CODE = ("importlib", "linecache", "tokenize", "inspect", "traceback", "zipimport", "warnings")
_CODE = (".py", ".pyc", ".so", ".pth")
_OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_variables: dict[str, set[str]] = {}
_files: dict[str, set[str]] = {}


def note_reads() -> None:
    """Note all reads of this process from now on; meant for the child that runs the script."""
    encode = os.environ.encodekey  # called by each read of a variable; its caller tells a read from a write

    def encodekey(key: Any) -> Any:
        if not torch.compiler.is_dynamo_compiling():  # which would break its graph here
            frame = sys._getframe(1)
            if frame.f_code.co_name == "__getitem__" and isinstance(key, str):
                with contextlib.suppress(Exception):
                    _note(_variables, key, frame)
        return encode(key)

    os.environ.encodekey = encodekey

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            with contextlib.suppress(Exception):
                _note_file(*arguments)

    sys.addaudithook(opened)


def reads_of(import_lines: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the variables and the files that a backend's code has read so far.

    `import_lines` are the backend's. Without any, the script defines it: the code counts that torch has called.
    """
    packages = packages_imported(*import_lines) or {SCRIPT}
    variables, files = (
        tuple(name for name, readers in reads.items() if not packages.isdisjoint(readers))
        for reads in (_variables, _files)
    )
    variables = tuple(filter(str.isidentifier, variables))
    return variables[:_MAX_NAMED], tuple(file for file in files if os.path.isfile(file))[:_MAX_NAMED]


def _note_file(path: Any, _mode: Any, flags: int) -> None:
    if isinstance(path, int) or flags & _WRITES:
        return
    name = os.path.normpath(os.fsdecode(path))
    frame: FrameType | None = sys._getframe(2)
    is_data = not name.startswith((*_OF_SYSTEM, os.pardir)) and not name.endswith(_CODE)
    if is_data and frame is not None and _top(frame) not in _READERS_OF_CODE:
        _note(_files, name, frame)


def _note(reads: dict[str, set[str]], name: str, frame: FrameType) -> None:
    if (name in reads or len(reads) < _MAX_READS) and (readers := _readers(frame)):
        reads.setdefault(name, set()).update(readers)


def _readers(innermost: FrameType) -> set[str]:
    """Return the packages whose code reads: those on the stack up to torch's code.

    None if torch itself reads. The script counts only within a call of torch: outside, all runs in the script.
    """
    readers: set[str] = set()
    for frame, _ in itertools.islice(traceback.walk_stack(innermost), _MAX_FRAMES):
        top = _top(frame)
        if top == "torch":
            return readers
        if top == SCRIPT or top not in sys.stdlib_module_names:
            readers.add(top)
    return readers - {SCRIPT, "minifier"}


def _top(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
