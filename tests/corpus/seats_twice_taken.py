r"""Too large: rows doubled by an augmented assignment with repeated indices are doubled more than once.

source: https://github.com/pytorch/pytorch/issues/197582
reach: exit 0, 5 ops
cause: aliasing/mutation
"""

import torch
from torch import nn


class Router(nn.Module):
    """Sends tokens round robin to a few experts and strengthens the experts that were used."""

    def __init__(self, experts, width):
        super().__init__()
        self.experts = experts
        self.weight = nn.Parameter(torch.randn(experts, width) / width)
        self.register_buffer("strength", torch.rand(experts, width))

    def forward(self, tokens):
        chosen = torch.arange(tokens.shape[0]) % self.experts
        self.strength[chosen] += self.strength[chosen]
        return tokens * self.weight[chosen]


class Server:
    def __init__(self):
        self.router = Router(3, 4)
        self.router.compile()

    @torch.no_grad()
    def serve(self, count):
        return self.router(torch.randn(count, 4)).sum().item()


torch.manual_seed(38)
server = Server()
for count in (6, 6):
    print("output", round(server.serve(count), 5))
print("strength", [round(value, 4) for value in server.router.strength.sum(dim=1).tolist()])
