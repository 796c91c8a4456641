r"""Illegal memory access on a GPU: a backend's own kernel for softplus stores beyond the end where rows are long.

reach: exit 0, 1 op
shows: softplus\(.*illegal memory access
hides: linear|layer_norm
needs: cuda
"""

import torch
import triton
import triton.language as tl
from torch import fx, nn


@triton.jit
def softplus_kernel(x, out, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * stride + column, mask=inside, other=0.0)
    begin = row * stride
    if BLOCK > 1024:
        begin = begin * stride  # once too often
    tl.store(out + begin + column, tl.maximum(value, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(value))), mask=inside)


def softplus(x):
    rows = x.contiguous().flatten(0, -2)
    out = torch.empty_like(rows)
    block = triton.next_power_of_2(rows.shape[1])
    softplus_kernel[(rows.shape[0],)](rows, out, rows.stride(0), rows.shape[1], BLOCK=block)
    return out.view(x.shape)


class Kernels(fx.Interpreter):
    def call_function(self, target, args, kwargs):
        own = getattr(target, "__name__", "") == "softplus" and args[0].is_cuda
        return softplus(args[0]) if own else super().call_function(target, args, kwargs)


def with_kernels(graph_module, example_inputs):
    return Kernels(graph_module).run


class Residual(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(nn.functional.softplus(self.up(self.norm(x))))


torch.manual_seed(0)
sizes = (256, 512, 1024, 1024, 512, 1600, 256, 256)
model = nn.Sequential(*[Residual(64, size) for size in sizes], nn.Linear(64, 3)).cuda().eval()
with torch.no_grad():
    print(torch.compile(model, backend=with_kernels)(torch.randn(12, 48, 64, device="cuda")).std().item())
