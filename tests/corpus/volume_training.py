r"""Nothing fails: inductor trains on volumes of one channel in channels_last_3d, strides of size 1 dimensions included.

reach: exit 1
says: agreed with eager
"""

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv3d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.second(torch.relu(self.first(x)))))


class Lungs(nn.Module):
    """Grades a scan of the lungs."""

    def __init__(self, channels=4, grades=3):
        super().__init__()
        self.enter, self.block = nn.Conv3d(1, channels, 3, padding=1), Residual(channels)
        self.pool, self.grade = nn.AdaptiveMaxPool3d((2, 2, 2)), nn.Linear(8 * channels, grades)

    def forward(self, scan):
        return self.grade(F.gelu(self.pool(self.block(self.enter(scan))).flatten(1)))


def main():
    torch.manual_seed(0)
    lungs = Lungs().to(memory_format=torch.channels_last_3d)
    compiled, optimizer = torch.compile(lungs), torch.optim.SGD(lungs.parameters(), lr=0.02, momentum=0.9)
    for step in range(2):
        scans = torch.randn(2, 1, 5, 6, 4).to(memory_format=torch.channels_last_3d)
        loss = F.cross_entropy(compiled(scans), torch.tensor([0, 2]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(lungs.parameters(), 1.0)
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
