"""Write the state of a Case and its backend's arguments as source."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from minifier.case import Case, State, Symbolic
from minifier.case.literals import imports_of_config, literal, script_names
from minifier.case.switches import statements
from minifier.emit.definitions import mark_names
from minifier.emit.forms import Template, Variant


@dataclass(frozen=True, slots=True)
class StateSource:
    """Statements that set configuration, default dtype and switches, and their imports.

    `of_script` are the statements that need the script's own definitions.
    """

    imports: tuple[str, ...]
    statements: tuple[str, ...]
    of_script: tuple[str, ...]


def settings(state: State, marked: Collection[str] = ()) -> StateSource:
    """Return the statements that make the state. Names in `marked` are marked as the user's."""
    imports = dict.fromkeys(imports_of_config(state.config))
    lines: list[str] = []
    of_script: list[str] = []
    for module, key, value in state.config:
        if script_names(value):
            of_script.append(f"{module}.{key} = {mark_names(literal(value), marked)}")
        else:
            lines.append(f"{module}.{key} = {literal(value)}")
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return StateSource(tuple(imports), (*lines, *statements(state)), tuple(of_script))


def backend_arguments(
    case: Case, template: Template, variant: Variant, script_names: Collection[str] = ()
) -> tuple[str, ...]:
    """Return further keyword arguments of torch.compile, or of a backend that the template calls directly.

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
