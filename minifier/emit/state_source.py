"""The state of a Case, and its backend's arguments, as statements of a script."""

from __future__ import annotations

from collections.abc import Collection

from minifier.case import BackendReference, Case, State, Symbolic
from minifier.case.literals import OF_SCRIPT, imported_paths, literal, module_of, objects_made
from minifier.case.switches import statements
from minifier.emit.definitions import marked
from minifier.emit.forms import Template, Variant


def settings(state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(imports, statements) for configuration, default dtype and switches."""
    functions = [path for _, _, value in state.config for path in imported_paths(value)]
    modules = [
        *(module for module, _, _ in state.config),
        *(path.partition(":")[0] for path in functions if ":" in path),
    ]
    imports = dict.fromkeys(f"import {module}" for module in modules)
    lines = [f"{module}.{key} = {literal(value)}" for module, key, value in state.config]
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return tuple(imports), (*lines, *statements(state))


def environment(state: State) -> tuple[str, ...]:
    """Statements that set what torch reads when it is imported."""
    return tuple(f"os.environ[{literal(name)}] = {literal(value)}" for name, value in state.environment)


def option_imports(backend: BackendReference) -> tuple[str, ...]:
    """What has to be imported for the options of a backend."""
    modules = [module_of(path) for path in imported_paths(backend.options) if not path.startswith(OF_SCRIPT)]
    made = [line for each in objects_made(backend.options) for line in each.imports]
    return (*(f"import {module}" for module in modules if module != "torch"), *made)


def backend_arguments(
    case: Case, template: Template, variant: Variant, of_script: Collection[str] = ()
) -> tuple[str, ...]:
    """Keyword arguments of torch.compile beside the backend; of the backend itself where that is called. Names
    `of_script` in its options are marked as such."""
    backend = case.backend
    found = []
    if backend.mode is not None:
        found.append(f"mode={literal(backend.mode)}")
    if backend.options is not None:
        found.append(f"options={marked(literal(backend.options), of_script)}")
    if template is Template.CALL_BACKEND:
        return tuple(found)
    if variant.symbolic is Symbolic.GIVEN:
        found.append("dynamic=True")
    elif backend.dynamic is not None and variant.symbolic is None:
        found.append(f"dynamic={backend.dynamic}")
    return tuple(found)
