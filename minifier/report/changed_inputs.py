"""Which aspects of a graph's inputs the reduction has changed without losing the failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minifier.case import Case, Drawn, TensorInput
from minifier.case.values import TensorMeta, is_permuted

_Pair = tuple[TensorMeta, TensorInput]  # the value as captured, and the input as it is now


def free_aspects(captured: Case, minimal: Case) -> tuple[str, ...]:
    """Return the aspects that were changed in every input of the reduced graph, and that a reader need not keep.

    A size counts if no tensor is empty and no size is symbolic, because compilers treat empty and symbolic sizes
    specially. No number above 1 of the captured shape may be left.
    """
    values = {node.name: node.value for node in captured.graph.nodes}
    pairs: list[_Pair] = []
    for item in minimal.inputs:
        value = values.get(item.name)
        if isinstance(item, TensorInput) and isinstance(value, TensorMeta):
            pairs.append((value, item))
    if not pairs or len(pairs) < len(minimal.inputs):
        return ()
    tests: Sequence[tuple[str, Callable[[_Pair], bool]]] = (
        ("size", lambda pair: minimal.symbolic is None and _other_size(*pair)),
        ("dtype", lambda pair: pair[0].dtype != pair[1].meta.dtype),
        ("stride", lambda pair: is_permuted(pair[0].shape, pair[0].stride) and not _is_permuted(pair[1])),
        # Constants may be the captured values.
        ("value", lambda pair: isinstance(pair[1].source, Drawn) and pair[1].source.is_random),
    )
    return tuple(name for name, is_other in tests if all(map(is_other, pairs)))


def _other_size(before: TensorMeta, item: TensorInput) -> bool:
    if 0 in item.meta.shape:
        return False
    return before.shape != item.meta.shape and not {size for size in item.meta.shape if size > 1} & {*before.shape}


def _is_permuted(item: TensorInput) -> bool:
    return is_permuted(item.meta.shape, item.meta.stride)
