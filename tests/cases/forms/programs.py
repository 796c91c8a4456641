"""A native program with a table of the dtypes of its outputs, registered by a call at the end of the module.

Fault: the runtime knows 32-bit integers only, so 64-bit results come back narrower.
"""

from __future__ import annotations

import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

_RUNTIME_DTYPES = {torch.int64: torch.int32, torch.bool: torch.bool}


def _outputs(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    return list(output.args[0])


def _run(gm: torch.fx.GraphModule, inputs: list[torch.Tensor], dtypes: list[torch.dtype]) -> list[torch.Tensor]:
    return [y.to(dtype) for y, dtype in zip(gm.forward(*inputs), dtypes, strict=True)]


def _compile(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    dtypes = [node.meta["val"].dtype for node in _outputs(gm)]
    dtypes = [_RUNTIME_DTYPES.get(dtype, dtype) for dtype in dtypes]
    return make_boxed_func(lambda *args: _run(gm, list(args), dtypes))


def program_backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    return aot_module_simplified(gm, inputs, fw_compiler=_compile)


torch._dynamo.register_backend(name="programs", compiler_fn=program_backend)
