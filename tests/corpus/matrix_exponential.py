r"""TypeError of a kernel's launcher on a GPU: max-autotune chooses among kernels for products of matrices.

source: https://github.com/pytorch/pytorch/issues/188069
reach: exit 0, 2 ops
shows: bmm\(.*max-autotune.*TypeError|bmm\(.*TypeError
hides: eye\(|tanh\(
needs: cuda
"""

import torch
from torch import nn


class Diffusion(nn.Module):
    """Spreads heat over some networks, by the first terms of the series for exp(rates)."""

    def __init__(self, nodes):
        super().__init__()
        self.insulation = nn.Parameter(torch.ones(nodes, 1))

    def forward(self, rates, heat):
        square = torch.bmm(rates, rates)
        cube = torch.bmm(square, rates)
        series = torch.eye(rates.shape[-1], device=rates.device) + rates + square / 2 + cube / 6
        series = series + torch.bmm(square, square) / 24
        return torch.tanh(torch.bmm(series, heat) * self.insulation)


torch.manual_seed(0)
nodes = 128
diffusion = Diffusion(nodes).cuda().eval()
compiled = torch.compile(diffusion, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)
rates = torch.randn(2, nodes, nodes, device="cuda") / 100
heat = torch.rand(2, nodes, nodes, device="cuda")
with torch.no_grad():
    torch.testing.assert_close(compiled(rates, heat), diffusion(rates, heat), rtol=1e-2, atol=1e-2)
