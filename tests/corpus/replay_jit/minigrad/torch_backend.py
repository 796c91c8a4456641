"""The backend `minigrad`: AOTAutograd's graphs, each with a recorder of its own."""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.registry import register_backend
from torch._functorch.aot_autograd import aot_module_simplified

from minigrad.recorder import Recorder


@register_backend
def minigrad(graph_module, example_inputs):
    def compiler(aten_module, aten_inputs):
        recorder = Recorder(aten_module)

        def call(*inputs):
            return list(recorder(*[x.detach() if isinstance(x, torch.Tensor) else x for x in inputs]))

        return make_boxed_func(call)

    return aot_module_simplified(graph_module, example_inputs, fw_compiler=compiler, decompositions={})
