"""The inputs of a graph, one per placeholder: the sources of their values, and their names in the user's program."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from minifier.data import fields
from minifier.data.case.graph import Graph
from minifier.data.case.values import MAX_BYTES, TensorMeta, contiguous_stride, is_float
from minifier.data.fields import Defect, item_bytes, one_of, shown

How = Annotated[str, one_of(("randn", "rand", "randint", "bools", "ones", "zeros", "full", "list", "no memory"))]


@dataclass(frozen=True, slots=True)
class Stored:
    """Values in the Case's tensor file under `key`.

    If `shared`, the key holds a whole storage, and several inputs are views of this storage.
    If `contiguous`, the key holds the elements in row-major order, whatever the input's stride.
    The input begins at the `offset`-th element under the key, because compiled code may depend on the alignment.
    In a Case with the input `base`, this input is a view of `base`. The key's values are for Cases without `base`.
    """

    key: fields.Text
    shared: bool = False
    contiguous: bool = False
    offset: fields.Natural = 0
    base: fields.Identifier | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Values of this node in an eager run of the whole graph."""

    node: fields.Identifier


@dataclass(frozen=True, slots=True)
class Drawn:
    """Generated values. `how` is randn, rand, randint, bools, ones, zeros, full, list or no memory.

    `no memory` means zeros without memory, which torch makes for gradients and tangents known to be zero.
    `low` and `high` bound rand (a half-open interval) and randint; `low` is the value of full;
    `values` are the elements of list.
    Inputs with the same `storage` are views of one generated storage, each at the stride and offset of its meta.
    """

    how: How
    low: float | int | None = None
    high: float | int | None = None
    values: tuple[float | int | bool, ...] = ()
    storage: fields.Text | None = None

    def check(self) -> None:
        """Raise ValueError for bounds from which nothing can be drawn."""
        low, high = self.low, self.high
        if self.how == "randint" and not (type(low) is int and type(high) is int and low < high):
            raise Defect("expected integers with low < high", ".low")
        if self.how == "rand" and not all(bound is None or math.isfinite(bound) for bound in (low, high)):
            raise Defect("expected finite bounds", ".low")
        if self.how == "full" and low is None:
            raise Defect("expected the value of all elements", ".low")

    @property
    def is_random(self) -> bool:
        """Whether random numbers are drawn; constants and listed values take none."""
        return self.how in ("randn", "rand", "randint", "bools")

    @property
    def spread(self) -> float:
        """Width of rand's interval, without floating-point noise."""
        low, high = self.low or 0.0, 1.0 if self.high is None else self.high
        return float(f"{high - low:.6g}")


@dataclass(frozen=True, slots=True)
class Adapted:
    """Values of another source, described by `meta`, cut to the input's shape and converted to its dtype.

    A smaller dimension keeps its first values, a removed dimension index 0."""

    of: Stored | Recorded
    meta: TensorMeta


Source = Stored | Recorded | Drawn | Adapted


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor argument.

    `leaf` is False for an op's result that requires grad. `parameter` marks an nn.Parameter, `inference` a tensor made
    in inference mode. `storage` is the number of elements of its storage if the graph may read beyond the tensor, else
    0.
    """

    name: fields.Identifier
    meta: TensorMeta
    source: Source
    leaf: bool = True
    parameter: bool = False
    inference: bool = False
    storage: fields.Natural = 0

    def check(self) -> None:
        """Raise ValueError unless the tensor lies in its storage, and has as many values as it needs."""
        meta, source = self.meta, self.source
        if self.storage and meta.offset + meta.span > self.storage:
            raise Defect("the tensor reaches beyond its storage", ".storage")
        if self.storage * item_bytes(meta.dtype) > MAX_BYTES:
            raise Defect("the storage takes more than 2**47 bytes, which no process can address", ".storage")
        if isinstance(source, Drawn) and source.how == "list":
            count = len(source.values)
            if count not in (meta.elements, meta.span, self.storage):
                raise Defect(f"expected {meta.elements} values, one for each element; found {count}", ".source.values")

    @property
    def whole(self) -> TensorMeta:
        """The storage that this input is a window of, as a tensor."""
        return replace(self.meta, shape=(self.storage,), stride=(1,), offset=0)


def with_ones(item: TensorInput) -> TensorInput:
    """Return the input in memory of its own, with ones; with zeros if its dtype is an integer's or bool."""
    how = "ones" if is_float(item.meta.dtype) else "zeros"
    return replace(item, meta=replace(item.meta, storage=None, offset=0), source=Drawn(how))


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number, string or None. `symbol` is the expression of a symbolic number."""

    name: fields.Identifier
    value: int | float | bool | str | None
    symbol: fields.Symbolic | None = None


Input = TensorInput | ScalarInput


def check_inputs(graph: Graph, inputs: Sequence[Input]) -> None:
    """Raise ValueError unless the graph's placeholders and the inputs agree, and bases of views are tensors."""
    if [node.name for node in graph.placeholders] != [item.name for item in inputs]:
        raise ValueError("the graph's placeholders and the inputs do not agree")
    numbers = {item.name for item in inputs if isinstance(item, ScalarInput)}
    for position, item in enumerate(inputs):
        if isinstance(item, TensorInput) and isinstance(item.source, Stored) and item.source.base in numbers:
            raise Defect(f"{shown(item.source.base)} is no tensor", f".inputs[{position}].source.base")


def drawn_storages(inputs: Iterable[Input]) -> dict[str, list[TensorInput]]:
    """Map each generated storage that inputs are views of to these inputs."""
    views: dict[str, list[TensorInput]] = {}
    for item in inputs:
        if isinstance(item, TensorInput) and isinstance(item.source, Drawn) and item.source.storage is not None:
            views.setdefault(item.source.storage, []).append(item)
    return views


def base_of_views(views: Sequence[TensorInput]) -> TensorMeta:
    """Return the smallest contiguous tensor that the views of one generated storage fit into.

    Views of one shape that follow one another are the rows of the base: its shape is (2, 3) for two views of 3
    elements. Otherwise the base has one dimension.
    """
    meta = views[0].meta
    starts = {view.meta.offset for view in views}
    are_rows = all((view.meta.shape, view.meta.stride) == (meta.shape, meta.stride) for view in views)
    if are_rows and meta.has_default_stride and starts == {row * meta.elements for row in range(len(starts))}:
        shape = (len(starts), *meta.shape)
    else:
        shape = (max(view.meta.offset + view.meta.span for view in views),)
    return TensorMeta(shape, contiguous_stride(shape), meta.dtype, meta.device)


def views_among(inputs: Iterable[Input]) -> set[str]:
    """Return the names of inputs that share memory: the views of a base, and those of a generated storage."""
    inputs = tuple(inputs)
    return {*bases(inputs), *(view.name for views in drawn_storages(inputs).values() for view in views)}


def bases(inputs: Iterable[Input]) -> dict[str, TensorInput]:
    """Map the name of each view to its base, for bases among these inputs."""
    by_name = {item.name: item for item in inputs if isinstance(item, TensorInput)}
    of = {name: item.source.base for name, item in by_name.items() if isinstance(item.source, Stored)}
    return {name: by_name[base] for name, base in of.items() if base is not None and base in by_name}


_STEP = re.compile("_(?:modules|parameters|buffers)_")  # from an object to its module, parameter or buffer
_TENSOR = re.compile("_(?:parameters|buffers)_")


def source_names(graph: Graph) -> dict[str, str]:
    """Map Dynamo's placeholders to names in the program: a variable, or a path below the model like `l1.weight`."""
    names = {node.name: _source_name(node.target) for node in graph.placeholders if node.target.startswith("L_")}
    return {node: name for node, name in names.items() if name}


def _source_name(target: str) -> str:
    """Return the name behind a placeholder's target, such as `L_self_modules_l1_parameters_weight_`."""
    joined = target.removeprefix("L_").strip("_")
    if _TENSOR.search(joined) is None:
        return joined
    _, *path = _STEP.split(joined)
    return ".".join(path)
