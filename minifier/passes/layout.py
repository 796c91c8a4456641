"""Inputs to plain contiguous tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from minifier.case import Case, Drawn, TensorInput, TensorMeta
from minifier.case.values import contiguous_stride
from minifier.passes.edits import Edit, Pass, Row, row
from minifier.passes.resized import with_tensors


def _restrided(name: str, strides: Callable[[TensorMeta], tuple[int, ...]]) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        if item.name != name:
            return item
        return replace(item, meta=replace(item.meta, stride=strides(item.meta), offset=0, storage=None))

    return lambda case: with_tensors(case, change)


def _contiguous(meta: TensorMeta) -> tuple[int, ...]:
    return contiguous_stride(meta.shape)


def _dense(meta: TensorMeta) -> tuple[int, ...]:
    """Without gaps and without elements that share their memory, the dimensions in the same order in it."""
    strides, step = [0] * len(meta.shape), 1
    for dim in sorted(range(len(meta.shape)), key=lambda dim: (meta.stride[dim], -dim)):
        strides[dim] = step
        step *= max(meta.shape[dim], 1)
    return tuple(strides)


def _layout(case: Case) -> list[Row]:
    """Of inputs whose values are made on the spot; stored values keep the strides they were stored with."""
    drawn = [i for i in case.inputs if isinstance(i, TensorInput) and isinstance(i.source, Drawn)]
    return [
        row(f"stride of {item.name}", _restrided(item.name, _contiguous), _restrided(item.name, _dense))
        for item in drawn
        if not item.meta.is_contiguous
    ]


PASSES = (Pass("layout", "strides of inputs to plain contiguous", _layout),)
