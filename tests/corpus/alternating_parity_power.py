r"""Wrong numbers: the sign of (-1) ** n is lost, in the code that torch.fx generates, not in what inductor reads.

source: https://github.com/pytorch/pytorch/issues/197894
reach: exit 0, 2 ops
shows: \(-1\) \*\*
"""

import torch


class ParityFilter(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(channels, channels)
        self.norm = torch.nn.LayerNorm(channels)

    def forward(self, window):
        hidden = torch.nn.functional.gelu(self.mix(self.norm(window)))
        flipped = hidden.flip(0) * (-1) ** window.shape[0]
        return torch.cumsum(hidden + flipped, dim=0) / window.shape[0]


torch.manual_seed(0)
model = ParityFilter(16)
compiled = torch.compile(model, backend="aot_eager", dynamic=True)
with torch.no_grad():
    for length in (5, 8, 12):
        window = torch.randn(length, 16)
        torch.testing.assert_close(compiled(window), model(window))
        print(length, "agrees")
