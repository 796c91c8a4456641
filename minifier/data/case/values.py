"""Values of nodes and constants in their arguments, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from minifier.data import fields
from minifier.data.fields import MAX_SIZE, Defect, device, identifier, item_bytes

MAX_BYTES = 2**47  # of a tensor's memory: what a process can address on x86-64 and on arm64


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A tensor without its elements.

    Views share a `storage` number, unique within a graph. `symbols` has an expression per symbolic size, else None."""

    shape: tuple[fields.Natural, ...]
    stride: tuple[fields.Natural, ...]
    dtype: fields.Dtype
    device: fields.Device = "cpu"
    requires_grad: bool = False
    storage: fields.Natural | None = None
    offset: fields.Natural = 0
    symbols: tuple[fields.Symbolic | None, ...] = ()

    def check(self) -> None:
        """Raise ValueError unless the sizes fit together, and into memory."""
        for items, place in ((self.stride, ".stride"), (self.symbols or self.shape, ".symbols")):
            if len(items) != len(self.shape):
                raise Defect(f"expected {len(self.shape)}, as many as sizes; found {len(items)}", place)
        if max(self.elements, self.offset + self.span) > MAX_SIZE:
            raise Defect("the tensor has more than 2**63 elements", ".shape")
        if self.device != "meta" and self.memory > MAX_BYTES:
            raise Defect("the tensor takes more than 2**47 bytes, which no process can address", ".shape")

    @property
    def memory(self) -> int:
        """Bytes from the start of the tensor's storage to its last element."""
        return (self.offset + self.span) * item_bytes(self.dtype)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """Number of storage elements from the tensor's first to its last."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements fill memory in row-major order, as torch has it: no stride of a size of 1 matters."""
        dims = zip(self.shape, self.stride, contiguous_stride(self.shape), strict=True)
        return not self.elements or all(step == natural or size == 1 for size, step, natural in dims)

    @property
    def has_default_stride(self) -> bool:
        """Whether each stride is a new tensor's. With a size of 1, torch may take (2, 1, 5) for channels last by it."""
        return self.stride == contiguous_stride(self.shape) or not self.elements


def is_float(dtype: str) -> bool:
    """Tell whether the dtype has real or complex floats: what can have a gradient."""
    return dtype.startswith(("float", "bfloat", "complex"))


def is_permuted(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether the elements fill memory without gaps or overlaps, but with other strides than a new tensor's."""
    natural = sorted((step, size) for size, step in zip(shape, stride, strict=True) if size > 1)
    step = 1
    for actual, size in natural:
        if actual != step:
            return False
        step *= size
    return tuple(stride) != contiguous_stride(tuple(shape))


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major stride of this shape."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def restride(meta: TensorMeta, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides for another shape of the same rank.

    The order of the dimensions, their gaps and the expanded dimensions stay."""
    if meta.has_default_stride:
        return contiguous_stride(shape)
    strides = [0] * len(shape)
    natural = step = 1
    for dim in sorted(range(len(shape)), key=lambda dim: meta.stride[dim]):
        if meta.stride[dim] == 0:
            continue
        if meta.shape[dim] > 1:  # the stride of a dimension of size one is arbitrary
            step *= max(1, meta.stride[dim] // natural)
            natural = meta.stride[dim] * meta.shape[dim]
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python number or string. If symbolic, `symbol` is its expression and `value` its hint."""

    value: int | float | bool | str | None
    symbol: fields.Symbolic | None = None


@dataclass(frozen=True, slots=True)
class Sequence_:
    """A tuple or list of values."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that cannot cross a cut: a context, a script object, None."""

    type: fields.Line


Value = TensorMeta | Scalar | Sequence_ | Opaque


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of torch; kind is dtype, device, layout or memory_format."""

    kind: str
    name: str

    def check(self) -> None:
        """Raise ValueError for a name that torch cannot have."""
        (device if self.kind == "device" else identifier)(self.name)


@dataclass(frozen=True, slots=True)
class Imported:
    """A function, class or enum member by its import path, `module:qualname`."""

    path: fields.ImportPath


@dataclass(frozen=True, slots=True)
class SourceExpression:
    """An object as an expression, with the imports and the script's own names that the expression needs."""

    expression: fields.Expression
    imports: tuple[fields.ImportLine, ...] = ()
    names: tuple[fields.Identifier, ...] = ()


@dataclass(frozen=True, slots=True)
class Size:
    """A torch.Size."""

    items: tuple[object, ...]
