"""The state of a Case, and its backend's arguments, as statements of a script."""

from __future__ import annotations

from minifier.case import Case, State, Symbolic
from minifier.case.literals import literal
from minifier.emit.forms import Template, Variant


def contexts(state: State) -> tuple[str, ...]:
    """Context managers under which the function is called."""
    found = []
    if state.inference:
        found.append("torch.inference_mode()")
    elif not state.grad:
        found.append("torch.no_grad()")
    found += [f'torch.autocast("{device}", dtype=torch.{dtype})' for device, dtype in state.autocast]
    return tuple(found)


def settings(state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(imports, statements) for configuration and default dtype."""
    imports = dict.fromkeys(f"import {module}" for module, _, _ in state.config)
    lines = [f"{module}.{key} = {literal(value)}" for module, key, value in state.config]
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return tuple(imports), tuple(lines)


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
