"""The types of a simplification pass, and inputs of another shape or dtype that keep their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from minifier.data.case import Adapted, Case, Drawn, Input, Node, Recorded, Stored, TensorInput, TensorMeta
from minifier.data.case.expressions import floats_in_tensors
from minifier.data.case.inputs import drawn_storages
from minifier.data.case.values import contiguous_stride, restride

Edit = Callable[[Case], Case]
"""A change. Returns the Case itself where there is nothing to change."""

Rung = tuple[Edit, ...]
"""Equally good alternatives; the first that yields a runnable program wins."""


@dataclass(frozen=True, slots=True)
class Row:
    """A detail to simplify. `name` is shown to the user; `rungs` go from the simplest edits to the smallest.

    `change` says in a report what was changed, for a row after which the failure was gone. Inputs stand in it in
    backticks, by their nodes. Rows of the passes over ops have none: the report says once that no op can go.
    """

    name: str
    rungs: tuple[Rung, ...]
    change: str = ""

    @property
    def edits(self) -> list[Edit]:
        """The edits of all rungs, in order."""
        return [edit for rung in self.rungs for edit in rung]


def row(name: str, *edits: Edit, change: str = "") -> Row:
    """Return a row with a single edit per rung."""
    return Row(name, tuple((edit,) for edit in edits), change)


def called(node: Node) -> str:
    """Return the function that an op calls, with its dots: no node has such a name."""
    return f"`Tensor.{node.target}`" if node.op == "call_method" else f"`{node.target}`"


@dataclass(frozen=True, slots=True)
class Pass:
    """A family of simplifications; `rows(case)` lists the rows that still apply.

    `asked` marks settings that the user chose: the failure probably needs them. Rows of an `alone` pass are never
    combined."""

    name: str
    sentence: str
    rows: Callable[[Case], Sequence[Row]]
    asked: bool = False
    alone: bool = False


Values = tuple[float | int | bool, ...]


def is_fixed(item: TensorInput) -> bool:
    """Return whether the shape is fixed: the input shares its memory, or its values are not contiguous."""
    source = item.source
    if isinstance(source, Stored) and source.base is None:
        return source.shared or not item.meta.is_contiguous
    return isinstance(source, Drawn) and source.how == "list" and not item.meta.is_contiguous


def reshaped(item: TensorInput, shape: tuple[int, ...]) -> TensorInput:
    """Return the input with another shape of the same rank, or itself if its shape is fixed."""
    meta = item.meta
    if shape == meta.shape or is_fixed(item):
        return item
    return _with_meta(item, replace(meta, shape=shape, stride=restride(meta, shape), offset=0, storage=None))


def without_dim(item: TensorInput, dim: int) -> TensorInput:
    """Return the slice of the input at index 0 of a dimension; unchanged if the shape is fixed.

    Captured values lose only their first dimension: for any other dimension the input stays unchanged."""
    meta = item.meta
    if is_fixed(item) or (dim and not isinstance(item.source, Drawn)):
        return item
    shape, stride = (tuple(n for i, n in enumerate(numbers) if i != dim) for numbers in (meta.shape, meta.stride))
    symbols = tuple(symbol for i, symbol in enumerate(meta.symbols) if i != dim)
    stride = contiguous_stride(shape) if meta.has_default_stride else stride
    return _with_meta(item, replace(meta, shape=shape, stride=stride, symbols=symbols, offset=0, storage=None))


def converted(item: TensorInput, dtype: str) -> TensorInput:
    """Return the input in another dtype; unchanged if its memory is shared."""
    if isinstance(item.source, Stored) and (item.source.shared or item.source.base is not None):
        return item
    return _with_meta(item, replace(item.meta, dtype=dtype, storage=None))


def _with_meta(item: TensorInput, meta: TensorMeta) -> TensorInput:
    source = item.source
    if isinstance(source, Stored) and source.base is not None:
        return replace(item, meta=meta)
    if isinstance(source, (Stored, Recorded)):
        source = Adapted(source, item.meta)
    elif isinstance(source, Drawn) and source.how == "list":
        source = replace(source, values=_corner(source.values, item.meta.shape, meta.shape))
    return replace(item, meta=meta, source=source)


def _corner(values: Values, old: tuple[int, ...], new: tuple[int, ...]) -> Values:
    """Return the leading values of each dimension, row-major. Leading dimensions go first if the rank shrinks."""
    if not new:
        return values[:1]
    old = old[len(old) - len(new) :]
    step = math.prod(old[1:])
    slices = (values[i * step : (i + 1) * step] for i in range(new[0]))
    return tuple(value for part in slices for value in _corner(part, old, new[1:]))


def with_tensors(case: Case, change: Callable[[TensorInput], TensorInput]) -> Case:
    """Return the Case with each tensor input changed, both in `inputs` and in the graph.

    The script's floats stay the same: a repro writes them as numbers."""
    floats = floats_in_tensors(case)
    inputs = tuple(
        change(item) if isinstance(item, TensorInput) and item.name not in floats else item for item in case.inputs
    )
    if inputs == case.inputs:
        return case
    views = {view.name for views in drawn_storages(case.inputs).values() for view in views}
    changed = {new.name for new, old in zip(inputs, case.inputs, strict=True) if new != old}
    moved = views & changed
    return _with_inputs(case, _placed(case.inputs, inputs, moved) if moved else inputs)


def only(name: str, change: Callable[[TensorInput], TensorInput]) -> Edit:
    """Return the edit that changes only the tensor input of this name."""
    return lambda case: with_tensors(case, lambda item: change(item) if item.name == name else item)


def _with_inputs(case: Case, inputs: tuple[Input, ...]) -> Case:
    metas = {item.name: item.meta for item in inputs if isinstance(item, TensorInput)}
    nodes = tuple(
        replace(node, value=metas[node.name]) if node.op == "placeholder" and node.name in metas else node
        for node in case.graph.nodes
    )
    return replace(case, inputs=inputs, graph=replace(case.graph, nodes=nodes))


def without_gaps(case: Case) -> Case:
    """Return the Case with the views of each generated storage placed without gaps between them."""
    names = {view.name for views in drawn_storages(case.inputs).values() for view in views}
    return _with_inputs(case, _placed(case.inputs, case.inputs, names))


def _placed(before: Sequence[Input], after: Sequence[Input], names: Collection[str]) -> tuple[Input, ...]:
    """Place the named views of generated storages, and the other views of these storages, anew.

    Views that followed one another still do, without a gap. Views that began together still do. A view that began
    inside an earlier one begins one element after the start of the view before it.
    """
    old = {item.name: item.meta for item in before if isinstance(item, TensorInput)}
    placed: dict[str, TensorInput] = {}
    for views in drawn_storages(after).values():
        if not any(view.name in names for view in views):
            continue
        start = end = start_before = end_before = 0
        for view in sorted(views, key=lambda view: old[view.name].offset):
            meta = old[view.name]
            if meta.offset >= end_before:
                start = end
            elif meta.offset > start_before:
                start += 1
            placed[view.name] = replace(view, meta=replace(view.meta, offset=start, storage=meta.storage))
            start_before, end_before = meta.offset, max(end_before, meta.offset + meta.span)
            end = max(end, start + view.meta.span)
    return tuple(placed.get(item.name, item) if isinstance(item, TensorInput) else item for item in after)
