r"""Wrong gradients: the last window of an average pool, which hangs over the end, is divided by its full size.

source: https://github.com/pytorch/pytorch/issues/198119
reach: exit 0, 1 op
cause: decomposition
"""

import torch
from torch import nn


class Reader(nn.Module):
    """Reads a sequence in steps of three; the last step may have less to read."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.pool = nn.AvgPool1d(3, stride=3, ceil_mode=True)
        self.out = nn.Linear(width, 1)

    def forward(self, sequence):
        hidden = torch.tanh(self.embed(sequence.unsqueeze(-1)))
        pooled = self.pool(hidden.transpose(1, 2))
        return self.out(pooled.amax(dim=-1)).squeeze(-1)


def fit(model, steps):
    run = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in range(steps):
        sequence = torch.randn(4, 7)
        loss = (run(sequence) - sequence.sum(dim=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", round(loss.item(), 4))


def main():
    torch.manual_seed(19)
    model = Reader(4)
    fit(model, 4)
    print("embedding", [round(value, 4) for value in model.embed.weight.flatten().tolist()])


if __name__ == "__main__":
    main()
