"""State, configuration and options to their defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minifier.case import Case, ScalarInput, State
from minifier.passes.edits import Edit, Pass
from minifier.passes.symbols import is_unbacked_value


def _without_config(entry: tuple[str, str, Any]) -> Edit:
    def edit(case: Case) -> Case:
        left = tuple(item for item in case.state.config if item[:2] != entry[:2])
        return replace(case, state=replace(case.state, config=left))

    return edit


# Without these Dynamo breaks the graph where a size or a number comes from the values of a tensor.
_FOR_UNBACKED = {"capture_scalar_outputs", "capture_dynamic_output_shape_ops"}


def _config(case: Case) -> list[Edit]:
    kept = _FOR_UNBACKED if any(is_unbacked_value(node.value) for node in case.graph.ops) else ()
    return [_without_config(entry) for entry in case.state.config if entry[1] not in kept]


def _without_grad(case: Case) -> Case:
    inputs = tuple(
        item
        if isinstance(item, ScalarInput)
        else replace(item, meta=replace(item.meta, requires_grad=False), leaf=True, parameter=False)
        for item in case.inputs
    )
    return replace(case, inputs=inputs, state=replace(case.state, grad=True, inference=False))


def _grad(case: Case) -> list[Edit]:
    return [_without_grad] if _without_grad(case) != case else []


def _ambient(case: Case) -> list[Edit]:
    plain = State()
    edits: list[Edit] = []
    if case.state.autocast:
        edits.append(lambda c: replace(c, state=replace(c.state, autocast=())))
    if case.state.default_dtype != plain.default_dtype:
        edits.append(lambda c: replace(c, state=replace(c.state, default_dtype=plain.default_dtype)))
    return edits


def _without_option(key: str) -> Edit:
    def edit(case: Case) -> Case:
        left = {k: v for k, v in (case.backend.options or {}).items() if k != key}
        return replace(case, backend=replace(case.backend, options=left or None))

    return edit


def _options(case: Case) -> list[Edit]:
    edits = [_without_option(key) for key in case.backend.options or {}]
    if case.backend.mode is not None:
        edits.append(lambda c: replace(c, backend=replace(c.backend, mode=None)))
    if case.backend.dynamic is not None and not any(isinstance(i, ScalarInput) and i.symbol for i in case.inputs):
        edits.append(lambda c: replace(c, backend=replace(c.backend, dynamic=None)))
    return edits


PASSES = (
    Pass("config", "configuration values to their defaults", _config, asked=True),
    Pass("grad", "requires_grad off, grad mode and inference mode to their defaults", _grad),
    Pass("ambient", "autocast and default dtype to their defaults", _ambient),
    Pass("options", "mode=, options= and dynamic= of the backend left out", _options, asked=True),
)
