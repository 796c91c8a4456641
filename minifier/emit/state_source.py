"""Write the state of a Case and its backend's arguments as source."""

from __future__ import annotations

from collections.abc import Collection

from minifier.case import BackendReference, Case, State, Symbolic
from minifier.case.literals import OF_SCRIPT, imported_paths, literal, module_of, objects_made
from minifier.case.switches import statements
from minifier.emit.definitions import mark_names
from minifier.emit.forms import Template, Variant


def settings(state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (imports, statements) that set configuration, default dtype and switches."""
    functions = [path for _, _, value in state.config for path in imported_paths(value)]
    modules = [module for module, _, _ in state.config]
    modules += [path.partition(":")[0] for path in functions if ":" in path]
    imports = dict.fromkeys(f"import {module}" for module in modules)
    lines = [f"{module}.{key} = {literal(value)}" for module, key, value in state.config]
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return tuple(imports), (*lines, *statements(state))


def environment(state: State) -> tuple[str, ...]:
    """Return statements that set environment variables; they must run before torch is imported."""
    return tuple(f"os.environ[{literal(name)}] = {literal(value)}" for name, value in state.environment)


def option_imports(backend: BackendReference) -> tuple[str, ...]:
    """Return the import lines that the backend's options need."""
    modules = [module_of(path) for path in imported_paths(backend.options) if not path.startswith(OF_SCRIPT)]
    object_imports = [line for constructed in objects_made(backend.options) for line in constructed.imports]
    return (*(f"import {module}" for module in modules if module != "torch"), *object_imports)


def backend_arguments(
    case: Case, template: Template, variant: Variant, script_names: Collection[str] = ()
) -> tuple[str, ...]:
    """Return further keyword arguments of torch.compile, or of the backend if the template calls it directly.

    Names in `script_names` are marked as the user's in the options.
    """
    backend = case.backend
    arguments = []
    if backend.mode is not None:
        arguments.append(f"mode={literal(backend.mode)}")
    if backend.options is not None:
        arguments.append(f"options={mark_names(literal(backend.options), script_names)}")
    if template is Template.CALL_BACKEND:
        return tuple(arguments)
    if variant.symbolic is Symbolic.GIVEN:
        arguments.append("dynamic=True")
    elif backend.dynamic is not None and variant.symbolic is None:
        arguments.append(f"dynamic={backend.dynamic}")
    return tuple(arguments)
