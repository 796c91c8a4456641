r"""SIGABRT in every run: code of inductor writes a whole vector where the end of a padded tensor has room for a part.

source: https://github.com/pytorch/pytorch/issues/196681
reach: exit 0, 4 ops
shows: pad\(.*permute\(.*pad\(.*matmul\(.*SIGABRT
hides: conv2d|batch_norm
"""

import torch
from torch import nn
from torch.nn import functional as F


class Rows(nn.Module):
    """Relates the columns of an image to its rows, both padded to one size."""

    def __init__(self, size, border=0.5):
        super().__init__()
        self.size, self.border = size, border

    def forward(self, x):
        x = F.gelu(x)
        columns = F.pad(x, (0, 0, 0, 0, 0, self.size - x.shape[1]), value=self.border)
        turned = x.permute(3, 2, 1, 0)
        rows = F.pad(turned, (0, 0, 0, self.size - turned.shape[2]), value=self.border)
        return torch.matmul(columns, rows)


class Wafer(nn.Module):
    """Marks the faults on photographs of wafers."""

    def __init__(self, side=66, kinds=5, channels=8):
        super().__init__()
        self.enter, self.norm = nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.relate, self.kinds = Rows(side), nn.Linear(1, kinds)
        self.damping = nn.Parameter(torch.tensor(0.1))

    def forward(self, photograph):
        related = self.relate(self.norm(self.enter(photograph)))
        return self.kinds(related * self.damping).log_softmax(dim=-1)


def main():
    torch.manual_seed(0)
    wafer = torch.compile(Wafer().eval().to(memory_format=torch.channels_last))
    with torch.inference_mode():
        for number in range(3):
            photograph = torch.rand(1, 3, 66, 66).to(memory_format=torch.channels_last)
            print(number, torch.bincount(wafer(photograph).argmax(dim=-1).flatten(), minlength=5).tolist())


if __name__ == "__main__":
    main()
