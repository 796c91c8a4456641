"""Results of earlier calls that a later call has written over, like those of a backend with a fixed output buffer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from minifier.compare.results import leaves
from minifier.failure import Aspect, Difference


def overwritten(earlier: Sequence[Any], inputs: Sequence[Any], result: Any) -> tuple[Difference, ...]:
    """Return a difference for each output that begins where an output of an earlier call does, and is no input's.

    `earlier` are the earlier calls' outputs, which still exist; `inputs` and `result` are the last call's.
    """
    taken = {value.data_ptr() for value in _in_memory(earlier)}
    given = [_memory(value) for value in _in_memory(inputs)]
    return tuple(
        Difference(Aspect.OVERWRITTEN, f"output {i}", f"output {i} is written over the result of an earlier call")
        for i, output in enumerate(leaves(result)[0])
        for value in _in_memory([output])
        if value.data_ptr() in taken and not any(value.data_ptr() in memory for memory in given)
    )


def not_in_eager(
    differences: Sequence[Difference], build: Callable[[], Callable[..., Any]], make_inputs: Callable[[], Sequence[Any]]
) -> tuple[Difference, ...]:
    """Leave out what `overwritten` finds in eager as well: a result that is a tensor of the graph's own, say.

    `build` makes the graph's module, which is called twice, with new inputs each time.
    """
    if not differences:
        return ()
    module = build()
    first, inputs = module(*make_inputs()), make_inputs()
    in_eager = {each.where for each in overwritten(leaves(first)[0], inputs, module(*inputs))}
    return tuple(each for each in differences if each.where not in in_eager)


def _in_memory(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that have elements in a memory of their own or a shared one; a wrapper of tensors has not."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.numel() and not value.is_meta:
            with contextlib.suppress(NotImplementedError, RuntimeError):
                value.data_ptr()
                yield value


def _memory(value: torch.Tensor) -> range:
    storage = value.untyped_storage()
    return range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())
