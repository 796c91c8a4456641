import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

RUNTIME_DTYPES = {torch.int64: torch.int32}


def _compile(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    dtypes = [node.meta["val"].dtype for node in output.args[0]]
    dtypes = [RUNTIME_DTYPES.get(dtype, dtype) for dtype in dtypes]
    return make_boxed_func(lambda *args: [y.to(dtype) for y, dtype in zip(gm(*args), dtypes, strict=True)])


def program_backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    return aot_module_simplified(gm, inputs, fw_compiler=_compile)


torch._dynamo.register_backend(name="programs", compiler_fn=program_backend)
