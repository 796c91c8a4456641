"""Dtypes to those that torch takes by default."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, TensorInput
from minifier.case.graph import with_leaves
from minifier.case.values import Constant
from minifier.passes.edits import Edit, Pass, Row
from minifier.passes.resized import converted, with_tensors


def _plainer(dtype: str) -> str:
    """The dtype of the same kind that a person gets without asking."""
    if dtype.startswith("complex"):
        return "complex64"
    if dtype.startswith(("float", "bfloat")):
        return "float32"
    return "int64" if dtype.startswith(("int", "uint")) else dtype


def _converted(old: str, *, inputs: bool, arguments: bool) -> Edit:
    new = _plainer(old)

    def changed(leaf: object) -> object:
        return (
            replace(leaf, name=new) if isinstance(leaf, Constant) and (leaf.kind, leaf.name) == ("dtype", old) else leaf
        )

    def edit(case: Case) -> Case:
        made = with_tensors(case, lambda item: converted(item, new) if inputs and item.meta.dtype == old else item)
        graph = with_leaves(made.graph, changed) if arguments else made.graph
        return made if graph is made.graph else replace(made, graph=graph)

    return edit


def _dtypes(case: Case) -> list[Row]:
    found = {item.meta.dtype for item in case.inputs if isinstance(item, TensorInput)}

    def note(leaf: object) -> object:
        if isinstance(leaf, Constant) and leaf.kind == "dtype":
            found.add(leaf.name)
        return leaf

    with_leaves(case.graph, note)
    return [
        Row(
            dtype,
            (
                (_converted(dtype, inputs=True, arguments=True),),
                (_converted(dtype, inputs=True, arguments=False), _converted(dtype, inputs=False, arguments=True)),
            ),
        )
        for dtype in sorted(found)
        if _plainer(dtype) != dtype
    ]


PASSES = (Pass("dtypes", "floating dtypes to float32, integers to int64", _dtypes),)
