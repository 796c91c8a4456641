"""A wide run of a graph that never holds all of its inputs wide: the weights of a model take their memory twice as it
is, in the script and in the store of kept inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from minifier.compare.wide_reference import Width, is_number
from minifier.fx.tensors import flat


def can_wait(value: Any, width: Width) -> bool:
    """Whether an input may stay narrow until an op takes it: converting it has to change it, and keep its strides."""
    if not isinstance(value, torch.Tensor) or not is_number(value) or value.layout is not torch.strided:
        return False
    return width.of(value.dtype) is not value.dtype and flat(value).numel() == value.numel()


class WidenedAsTaken(torch.fx.Interpreter):
    """Runs a widened graph without ops in place, where no gradient is asked for. The inputs at `waiting` come narrow;
    each is widened anew for every op that takes it, and kept wide once an op has written to it."""

    def __init__(self, module: torch.fx.GraphModule, width: Width, waiting: Sequence[int]) -> None:
        super().__init__(module)
        placeholders = list(module.graph.find_nodes(op="placeholder"))
        self._width, self._waiting = width, {placeholders[i] for i in waiting}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Runs one node, with the waiting inputs among its arguments widened."""
        narrow = {node: self.env[node] for node in n.all_input_nodes if node in self._waiting}
        for node, value in narrow.items():
            self.env[node] = value.detach().to(self._width.of(value.dtype))
        result = super().run_node(n)
        for node, value in narrow.items():
            if _written(self.env[node], value):
                self._waiting.discard(node)
            else:
                self.env[node] = value
        return result


def _written(wide: torch.Tensor, narrow: torch.Tensor) -> bool:
    if wide.is_inference():  # such a tensor does not count what is written to it
        return not torch.equal(wide, narrow.detach().to(wide.dtype))
    return wide._version > 0
