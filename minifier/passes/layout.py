"""Inputs to plain contiguous tensors."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Drawn, TensorInput
from minifier.case.values import contiguous_stride
from minifier.passes.edits import Edit, Pass


def _plain(name: str) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        meta = replace(item.meta, stride=contiguous_stride(item.meta.shape), offset=0, storage=None)
        return replace(item, meta=meta)

    def edit(case: Case) -> Case:
        inputs = tuple(change(i) if isinstance(i, TensorInput) and i.name == name else i for i in case.inputs)
        return replace(case, inputs=inputs)

    return edit


def _layout(case: Case) -> list[Edit]:
    """Of inputs whose values are made on the spot; stored values keep the strides they were stored with."""
    drawn = [i for i in case.inputs if isinstance(i, TensorInput) and isinstance(i.source, Drawn)]
    return [_plain(item.name) for item in drawn if not item.meta.is_contiguous]


PASSES = (Pass("layout", "strides of inputs to plain contiguous", _layout),)
