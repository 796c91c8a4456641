"""An importer object that maps each op by its name, keeps all graphs that it imported, and executes them itself.

Fault: `aten.permute` with negative dimensions.
"""

from __future__ import annotations

import torch
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func


def _permute(x, dims):
    order = sorted(range(len(dims)), key=lambda i: dims[i]) if min(dims) < 0 else list(dims)
    return x.permute(order)


class Importer:
    def __init__(self, decompositions=None, verbose: bool = False) -> None:
        self._decompositions = decompositions if decompositions is not None else core_aten_decompositions()
        self._verbose = verbose
        self._graphs: list[torch.fx.Graph] = []
        self._ops = {"permute.default": _permute}

    @property
    def graphs(self) -> list[torch.fx.Graph]:
        return list(self._graphs)

    def _import(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        self._graphs.append(gm.graph)
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]

        def execute(*args):
            values = dict(zip(placeholders, args, strict=True))
            read = lambda node: values[node]  # noqa: E731
            for node in gm.graph.nodes:
                if node.op == "call_function":
                    name = node.target.__name__
                    function = self._ops.get(name, node.target)
                    values[node] = function(*torch.fx.map_arg(node.args, read), **torch.fx.map_arg(node.kwargs, read))
                elif node.op == "output":
                    return torch.fx.map_arg(node.args[0], read)

        return make_boxed_func(execute)

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        return aot_module_simplified(gm, inputs, fw_compiler=self._import, decompositions=self._decompositions)
