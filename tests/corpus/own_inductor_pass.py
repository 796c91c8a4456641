r"""Wrong numbers: an object of the script that is set as inductor's pass over the graph swaps what is subtracted.

reach: exit 0, 2 ops
shows: post_grad_custom_post_pass.*assert_close
hides: layer_norm|GatedDelta
says: at fault  the program's own pass, torch\._inductor\.config\.post_grad_custom_post_pass\navoid     leave out torch
run: --explain
layer: soak
"""

import torch
from torch import nn
from torch._inductor import config

aten = torch.ops.aten


class GatesFirst:
    """Puts gates first where two values are combined; right for products, wrong for differences."""

    def __call__(self, graph):
        for node in graph.nodes:
            if node.target in (aten.mul.Tensor, aten.sub.Tensor):
                left, right = node.args
                if isinstance(right, torch.fx.Node) and right.target is aten.sigmoid.default:
                    node.args = (right, left)

    def uuid(self):
        return b"gates first, 2"


config.post_grad_custom_post_pass = GatesFirst()


class GatedDelta(nn.Module):
    def __init__(self, width, subtracts):
        super().__init__()
        self.norm, self.value, self.gate = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.subtracts = subtracts

    def forward(self, x):
        normed = self.norm(x)
        value, gate = torch.tanh(self.value(normed)), torch.sigmoid(self.gate(normed))
        return x + (value - gate if self.subtracts else value * gate)


torch.manual_seed(0)
model = nn.Sequential(*[GatedDelta(12, number == 2) for number in range(4)], nn.Linear(12, 2)).eval()
x = torch.randn(5, 12)
with torch.no_grad():
    apart = (torch.compile(model)(x) - model(x)).abs().max().item()
print("largest difference", apart)
raise SystemExit(int(apart > 1e-3))
