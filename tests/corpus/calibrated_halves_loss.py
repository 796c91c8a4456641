r"""Another precision: the loss of bfloat16 chances with float32 weights comes as float32.

source: https://github.com/pytorch/pytorch/issues/197098
reach: exit 0, 1 op
cause: type promotion
"""

import torch
from torch import nn
from torch.nn import functional


class Detector(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, labels))
        self.register_buffer("weight", torch.linspace(0.5, 2.0, labels))

    def forward(self, inputs):
        return torch.sigmoid(self.layers(inputs)).bfloat16()


@torch.compile
def loss_of(chances, targets, weight):
    return functional.binary_cross_entropy(chances, targets, weight)


@torch.no_grad()
def evaluate(model, batches):
    """The losses, in the precision that they have."""
    losses = []
    for number in range(batches):
        chances = model(torch.randn(6, 5))
        targets = (torch.rand(6, 3) > 0.5).bfloat16()
        losses.append(loss_of(chances, targets, model.weight))
        print("batch", number, "loss", losses[-1].item())
    return torch.stack(losses)


if __name__ == "__main__":
    torch.manual_seed(52)
    losses = evaluate(Detector(3).eval(), 4)
    print("mean", losses.mean().item(), "in", losses.nbytes, "bytes")
