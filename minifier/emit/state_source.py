"""The state of a Case, and its backend's arguments, as statements of a script."""

from __future__ import annotations

from minifier.case import Case, State, Symbolic
from minifier.case.literals import imported_paths, literal
from minifier.case.switches import statements
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


def backend_arguments(case: Case, template: Template, variant: Variant) -> tuple[str, ...]:
    """Keyword arguments of torch.compile beside the backend; of the backend itself where that is called."""
    backend = case.backend
    found = []
    if backend.mode is not None:
        found.append(f"mode={literal(backend.mode)}")
    if backend.options is not None:
        found.append(f"options={literal(backend.options)}")
    if template is Template.CALL_BACKEND:
        return tuple(found)
    if variant.symbolic is Symbolic.GIVEN:
        found.append("dynamic=True")
    elif backend.dynamic is not None and variant.symbolic is None:
        found.append(f"dynamic={backend.dynamic}")
    return tuple(found)
