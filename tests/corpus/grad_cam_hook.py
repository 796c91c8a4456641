r"""No relevance: the gradient of a kept activation is None, as the compiled backward pass goes round it.

source: https://github.com/pytorch/pytorch/issues/91468
reach: exit 0, 12 statements
cause: aliasing/mutation
"""

import torch
from torch import nn


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3))
        self.classify = nn.Linear(8, 4)

    def forward(self, images):
        maps = torch.relu(self.features(images))
        return self.classify(maps.mean(dim=(2, 3))), maps


class Relevance:
    """Weighs the last maps by how much the class depends on them."""

    def __init__(self, net):
        self.net = torch.compile(net, backend="aot_eager")

    def __call__(self, images, label):
        logits, maps = self.net(images)
        maps.retain_grad()
        logits[:, label].sum().backward()
        if maps.grad is None:
            return torch.zeros(images.shape[0], *maps.shape[2:])
        weights = maps.grad.mean(dim=(2, 3), keepdim=True)
        return torch.relu((weights * maps).sum(dim=1)).detach()


def main():
    torch.manual_seed(22)
    relevance = Relevance(SmallNet())
    for label in range(3):
        heat = relevance(torch.rand(2, 2, 9, 9), label)
        print("label", label, "heat", round(heat.sum().item(), 5), "of", list(heat.shape))


if __name__ == "__main__":
    main()
