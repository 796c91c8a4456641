"""A backend for CPUs that takes Triton kernels into its graphs and runs them in Triton's interpreter, but cannot
compile those that write through a mask. Triton itself has no driver for CPUs."""

import operator
from types import SimpleNamespace

import torch
from torch._dynamo import register_backend
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from triton.backends import backends
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

# By this torch finds that there are kernels for CPUs.
_COMPILER = SimpleNamespace(supports_target=lambda target: False)
backends["cpu"] = SimpleNamespace(compiler=_COMPILER, driver=SimpleNamespace(is_active=lambda: True))


def _run(self, *args, grid, warmup, **kwargs):
    options = {name: value for name, value in kwargs.items() if name in self.arg_names}
    return InterpretedFunction(self.fn)[grid](*args, **options)


JITFunction.run = _run
JITFunction.__call__ = lambda self, *args, **kwargs: InterpretedFunction(self.fn)(*args, **kwargs)


@register_backend
def masked(gm: torch.fx.GraphModule, example_inputs):
    for node in gm.graph.nodes:
        if "kernel_idx" in node.kwargs:
            kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
            while not isinstance(kernel, JITFunction):
                kernel = kernel.fn
            if "mask=" in kernel.src:
                raise NotImplementedError(f"{kernel.fn.__name__} writes through a mask")
    return gm


@register_backend
def halved(gm: torch.fx.GraphModule, example_inputs):
    """Launches kernels on half of their grid."""
    for node in gm.graph.nodes:
        if "grid" in node.kwargs:
            grids = [(max(1, grid[0] // 2), *grid[1:]) for grid in node.kwargs["grid"]]
            node.kwargs = {**node.kwargs, "grid": grids}
        if node.target is operator.mul:
            node.target = torch.mul
    gm.recompile()
    return gm
