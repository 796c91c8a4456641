"""Inputs to plain contiguous tensors with storage of their own."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Drawn, Stored, TensorInput
from minifier.case.values import contiguous_stride
from minifier.passes.edits import Edit, Pass


def _is_plain(item: TensorInput) -> bool:
    shared = isinstance(item.source, Stored) and item.source.shared
    return item.meta.is_contiguous and item.meta.offset == 0 and not shared


def _plain(name: str) -> Edit:
    def edit(case: Case) -> Case:
        def change(item: TensorInput) -> TensorInput:
            meta = replace(item.meta, stride=contiguous_stride(item.meta.shape), offset=0, storage=None)
            source = Drawn("zeros") if isinstance(item.source, Stored) and item.source.shared else item.source
            return replace(item, meta=meta, source=source)

        inputs = tuple(change(i) if isinstance(i, TensorInput) and i.name == name else i for i in case.inputs)
        return replace(case, inputs=inputs)

    return edit


def _layout(case: Case) -> list[Edit]:
    # A stored stretch of memory with gaps has no meaning under other strides; its values are redrawn later.
    return [
        _plain(i.name)
        for i in case.inputs
        if isinstance(i, TensorInput) and isinstance(i.source, Drawn) and not _is_plain(i)
    ]


PASSES = (Pass("layout", "strides and sharing of inputs to plain contiguous", _layout),)
