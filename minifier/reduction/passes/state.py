"""Configuration, switches, modes and options to their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from minifier.data.case import Case, ScalarInput, State, TensorInput
from minifier.data.case.symbolic_sizes import is_unbacked_value
from minifier.data.torch_names import AUTOGRAD_FUNCTION
from minifier.reduction.passes.edits import Edit, Pass, Row, row


def without_config(entry: tuple[str, str, Any]) -> Edit:
    """Return the edit that leaves this configuration value out: it has its default then."""
    return _without("config", *entry[:2])


def _without(section: str, *names: str) -> Edit:
    """Return the edit that leaves out the entry of a section of the state that begins with these names."""

    def edit(case: Case) -> Case:
        entries = tuple(entry for entry in getattr(case.state, section) if entry[: len(names)] != names)
        changed: dict[str, Any] = {section: entries}
        return replace(case, state=replace(case.state, **changed))

    return edit


# Without these Dynamo breaks the graph where a size or a number depends on the values of a tensor.
_FOR_UNBACKED = {"capture_scalar_outputs", "capture_dynamic_output_shape_ops"}


def _config(case: Case) -> list[Row]:
    required = _FOR_UNBACKED if any(is_unbacked_value(node.value) for node in case.graph.ops) else ()
    entries = {f"{each[0]}.{each[1]}": each for each in case.state.config if each[1] not in required}
    return [
        row(name, without_config(entry), change=f"The setting `{name}` at its default.")
        for name, entry in entries.items()
    ]


def _switches(case: Case) -> list[Row]:
    return [
        row(name, _without("switches", name), change=f"The global switch `{name}` of torch at its default.")
        for name, _ in case.state.switches
    ]


def unset(name: str) -> str:
    """Say that an environment variable was left out."""
    return f"The environment variable `{name}` not set."


def _environment(case: Case) -> list[Row]:
    """Return a row for each variable, except for those that the backend reads: it was imported before the probes."""
    names = [name for name, _ in case.state.environment if name not in case.backend.variables]
    return [row(name, _without("environment", name), change=unset(name)) for name in names]


def _with_inputs(case: Case, change: Callable[[TensorInput], TensorInput]) -> Case:
    return replace(case, inputs=tuple(i if isinstance(i, ScalarInput) else change(i) for i in case.inputs))


def _state_with(**values: Any) -> Edit:
    return lambda case: replace(case, state=replace(case.state, **values))


def _backend_with(**values: Any) -> Edit:
    return lambda case: replace(case, backend=replace(case.backend, **values))


def _inputs_with(**values: Any) -> Edit:
    return lambda case: _with_inputs(case, lambda item: replace(item, **values))


def _without_inference(case: Case) -> Case:
    """Return the Case under no_grad instead: the backend sees nothing else of inference mode when compiling."""
    return _state_with(inference=False)(_inputs_with(inference=False)(case))


def _without_grad(case: Case) -> Case:
    case = _with_inputs(
        _without_inference(case),
        lambda item: replace(item, meta=replace(item.meta, requires_grad=False), leaf=True, parameter=False),
    )
    return _state_with(grad=True)(case)


def _grad(case: Case) -> list[Row]:
    # A backward pass needs a gradient; Dynamo inlines an autograd function where nothing requires grad.
    needed = case.backward or any(node.target == AUTOGRAD_FUNCTION for node in case.graph.ops)
    rows = [
        row("leaves", _inputs_with(leaf=True), change="Each input a leaf, not the result of an op."),
        row("inference mode", _without_inference, change="Inference mode off."),
        row("inputs made in inference mode", _inputs_with(inference=False), change="No input made in inference mode."),
    ]
    return rows if needed else [_without_gradients(case), *rows]


def _without_gradients(case: Case) -> Row:
    """Return the row that sets gradients to their defaults, named by what of them the Case has."""
    of_inputs = any(item.meta.requires_grad or item.parameter or not item.leaf for item in case.tensor_inputs)
    off, on = "`requires_grad` of the inputs off", "rad mode on, without `torch.no_grad()`."
    if case.state.grad:
        return row("requires_grad", _without_grad, change=f"{off}.")
    if of_inputs:
        return row("requires_grad and no_grad", _without_grad, change=f"{off}, and g{on}")
    return row("no_grad", _without_grad, change=f"G{on}")


def _ambient(case: Case) -> list[Row]:
    return [
        row("autocast", _state_with(autocast=()), change="Autocast off."),
        row("default dtype", _state_with(default_dtype=State().default_dtype), change="The default dtype float32."),
    ]


def without_option(key: str) -> Edit:
    """Return the edit that leaves this option of the backend out."""

    def edit(case: Case) -> Case:
        options = {k: v for k, v in (case.backend.options or {}).items() if k != key}
        return _backend_with(options=options or None)(case)

    return edit


def with_option(key: str, value: Any) -> Edit:
    """Return the edit that gives this option of the backend this value."""

    return lambda case: _backend_with(options={**(case.backend.options or {}), key: value})(case)


def _options(case: Case) -> list[Row]:
    rows = [
        row(f"option {key}", without_option(key), change=f"The backend without its option `{key}`.")
        for key in case.backend.options or {}
    ]
    without = "`torch.compile` without the argument"
    rows.append(row("mode=", _backend_with(mode=None), change=f"{without} `mode=`."))
    if case.symbolic is None:
        rows.append(row("dynamic=", _backend_with(dynamic=None), change=f"{without} `dynamic=`."))
    return rows


PASSES = (
    Pass("config", "configuration values to their defaults", _config, asked=True),
    Pass("switches", "torch's global switches to their defaults, default device included", _switches, asked=True),
    Pass("environment", "environment variables that torch and compilers read left out", _environment),
    Pass("grad", "requires_grad off, grad mode and inference mode to their defaults", _grad),
    Pass("ambient", "autocast and default dtype to their defaults", _ambient),
    Pass("options", "mode=, options= and dynamic= of the backend left out", _options, asked=True),
)
