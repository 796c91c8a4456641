r"""A loss too large: the decomposed multilabel margin loss counts labels behind the closing -1 as class 0.

source: https://github.com/pytorch/pytorch/issues/141017
reach: exit 0, 1 op
cause: decomposition
"""

import torch
from torch import nn
from torch.nn import functional


class Tags(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, classes))

    def forward(self, inputs):
        return self.layers(inputs)


@torch.compile(backend="aot_eager")
def margin(scores, labels):
    return functional.multilabel_margin_loss(scores, labels)


def labels_for(count, classes):
    """Rows of class numbers, closed by -1."""
    labels = torch.full((count, classes), -1)
    labels[:, 0] = torch.arange(count) % classes
    labels[::2, 1] = (torch.arange(count)[::2] + 1) % classes
    return labels


@torch.no_grad()
def evaluate(model, batches):
    total = 0.0
    for number in range(batches):
        loss = margin(model(torch.randn(8, 6)), labels_for(8, 5))
        total += loss.item()
        print("batch", number, "loss", round(loss.item(), 4))
    return total / batches


if __name__ == "__main__":
    torch.manual_seed(76)
    print("mean", round(evaluate(Tags(5).eval(), 3), 4))
