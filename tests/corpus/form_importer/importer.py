import torch
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func


def _permute(x, dims):
    order = sorted(range(len(dims)), key=lambda i: dims[i]) if min(dims) < 0 else list(dims)
    return x.permute(order)


class Interpreter(torch.fx.Interpreter):
    def __init__(self, gm, ops):
        super().__init__(gm)
        self.ops = ops

    def call_function(self, target, args, kwargs):
        return self.ops.get(target.__name__, target)(*args, **kwargs)


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
        return make_boxed_func(Interpreter(gm, self._ops).run)

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        return aot_module_simplified(gm, inputs, fw_compiler=self._import, decompositions=self._decompositions)
