r"""Wrong numbers on a GPU: inductor computes an arange of 64 bit integers in 32 bits, and stamps run over.

source: https://github.com/pytorch/pytorch/issues/175966
reach: exit 0, 3 ops
shows: arange\(.*assert_close
hides: linear|layer_norm
needs: cuda
"""

import torch
from torch import nn

NANOSECONDS = 10**9  # of a second
DAY = 86_400 * NANOSECONDS


class Samples(nn.Module):
    """When each sample of a record was taken: one a second, from the start of the record on."""

    def forward(self, record, start):
        passed = torch.arange(record.shape[1], dtype=torch.int64, device=record.device) * NANOSECONDS
        return start.unsqueeze(1) + passed


class Daylight(nn.Module):
    """The power of a solar panel from its measures and the time of day."""

    def __init__(self, measures=10, width=16):
        super().__init__()
        self.samples, self.enter, self.norm = Samples(), nn.Linear(measures, width), nn.LayerNorm(width)
        self.clock, self.power = nn.Linear(2, width), nn.Linear(width, 1)

    def forward(self, record, start):
        stamps = self.samples(record, start)
        angle = (stamps % DAY).double().mul(2 * torch.pi / DAY).float()
        hour = torch.stack([angle.sin(), angle.cos()], dim=-1)
        x = self.norm(self.enter(record) + self.clock(hour))
        return torch.relu(self.power(x)).squeeze(-1), stamps


torch.manual_seed(0)
daylight = Daylight().cuda().eval()
record, start = torch.randn(3, 80, 10, device="cuda"), torch.randint(0, 10**16, (3,), device="cuda")
with torch.no_grad():
    power, stamps = torch.compile(daylight)(record, start)
    expected_power, expected_stamps = daylight(record, start)
torch.testing.assert_close(stamps, expected_stamps)
torch.testing.assert_close(power, expected_power, rtol=1e-3, atol=1e-3)
