"""Strides and dtypes of inputs to torch's defaults: contiguous, float32, int64, complex64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from minifier.case import Case, Drawn, TensorInput, TensorMeta
from minifier.case.graph import with_leaves
from minifier.case.values import Constant, contiguous_stride
from minifier.passes.edits import Edit, Pass, Row, row
from minifier.passes.resized import converted, with_tensors
from minifier.passes.sizes import smaller


def _restrided(name: str, strides: Callable[[TensorMeta], tuple[int, ...]]) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        if item.name != name:
            return item
        return replace(item, meta=replace(item.meta, stride=strides(item.meta), offset=0, storage=None))

    return lambda case: with_tensors(case, change)


def _contiguous(meta: TensorMeta) -> tuple[int, ...]:
    return contiguous_stride(meta.shape)


def _dense(meta: TensorMeta) -> tuple[int, ...]:
    """Return strides without gaps or overlaps that keep the order of the dimensions in memory."""
    strides, step = [0] * len(meta.shape), 1
    for dim in sorted(range(len(meta.shape)), key=lambda dim: (meta.stride[dim], -dim)):
        strides[dim] = step
        step *= max(meta.shape[dim], 1)
    return tuple(strides)


def _stored_in(name: str, elements: int) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        if item.name != name:
            return item
        return replace(item, storage=elements, meta=item.meta if elements else replace(item.meta, offset=0))

    return lambda case: with_tensors(case, change)


def _storages(case: Case) -> list[Row]:
    """Return a row for each generated input that is a window of a larger storage."""
    drawn = [item for item in case.inputs if isinstance(item, TensorInput) and isinstance(item.source, Drawn)]
    return [
        row(f"storage of {item.name}", *(_stored_in(item.name, size) for size in (0, *_sufficient(item))))
        for item in drawn
        if item.storage
    ]


def _sufficient(item: TensorInput) -> list[int]:
    return [size for size in smaller(item.storage) if size >= item.meta.offset + item.meta.span]


def _layout(case: Case) -> list[Row]:
    """Return rows for each generated input. Stored values keep the strides that they were stored with."""
    return [*_storages(case), *_strides(case)]


def _strides(case: Case) -> list[Row]:
    return [
        row(f"stride of {item.name}", _restrided(item.name, _contiguous), _restrided(item.name, _dense))
        for item in case.inputs
        if isinstance(item, TensorInput) and isinstance(item.source, Drawn) and not item.meta.is_contiguous
    ]


_KINDS = (
    ("float32", "float64", "float16", "bfloat16"),
    ("int64", "int32", "int16", "int8", "uint8"),
    ("complex64", "complex128"),
)


def dtypes_like(dtype: str) -> tuple[str, ...]:
    """Return the common dtypes of the same kind."""
    return next((kind for kind in _KINDS if dtype in kind), ())


def dtype_edits(old: str, new: str) -> tuple[Edit, ...]:
    """Return the edits that replace a dtype: of inputs and arguments together, of inputs alone, of arguments alone."""
    return tuple(
        _converted(old, new, inputs=inputs, arguments=arguments)
        for inputs, arguments in ((True, True), (True, False), (False, True))
    )


def _default_dtype(dtype: str) -> str:
    """Return torch's default dtype of the same kind."""
    if dtype.startswith("complex"):
        return "complex64"
    if dtype.startswith(("float", "bfloat")):
        return "float32"
    return "int64" if dtype.startswith(("int", "uint")) else dtype


def _converted(old: str, new: str, *, inputs: bool, arguments: bool) -> Edit:
    def changed(leaf: object) -> object:
        is_old = isinstance(leaf, Constant) and (leaf.kind, leaf.name) == ("dtype", old)
        return Constant("dtype", new) if is_old else leaf

    def edit(case: Case) -> Case:
        if inputs:
            case = with_tensors(case, lambda item: converted(item, new) if item.meta.dtype == old else item)
        graph = with_leaves(case.graph, changed) if arguments else case.graph
        return case if graph is case.graph else replace(case, graph=graph)

    return edit


def _dtypes(case: Case) -> list[Row]:
    dtypes = {item.meta.dtype for item in case.inputs if isinstance(item, TensorInput)}

    def note(leaf: object) -> object:
        if isinstance(leaf, Constant) and leaf.kind == "dtype":
            dtypes.add(leaf.name)
        return leaf

    with_leaves(case.graph, note)
    edits = {dtype: dtype_edits(dtype, _default_dtype(dtype)) for dtype in sorted(dtypes)}
    return [Row(dtype, (edits[dtype][:1], edits[dtype][1:])) for dtype in edits if _default_dtype(dtype) != dtype]


PASSES = (
    Pass("layout", "strides of inputs to plain contiguous, storages no larger than needed", _layout),
    Pass("dtypes", "floating dtypes to float32, integers to int64", _dtypes),
)
