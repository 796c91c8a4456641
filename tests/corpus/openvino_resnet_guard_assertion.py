r"""AssertionError of Dynamo's guards: OpenVINO leaves symbols of its own in the shape environment.

reach: exit 0, 1 op
shows: conv2d\(.*backend="openvino"
hides: batch_norm|softmax
says: openvino
needs: openvino
"""

import openvino.torch
import torch
from torch import nn


class Pair(nn.Module):
    """Two convolutions beside a connection that leaves them out."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.early, self.late = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.late(self.second(torch.relu(self.early(self.first(x))))))


class Birds(nn.Module):
    """Names the bird on a picture."""

    def __init__(self, channels=6, birds=8):
        super().__init__()
        self.enter, self.name = nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.Linear(channels, birds)
        self.pairs = nn.Sequential(Pair(channels), Pair(channels))

    def forward(self, picture):
        x = torch.relu(self.enter((picture - 0.5) / 0.25))
        return torch.softmax(self.name(self.pairs(x).mean(dim=(2, 3))), dim=-1)


torch.manual_seed(0)
birds = Birds().eval()
picture = torch.rand(2, 3, 12, 12)
with torch.no_grad():
    compiled = torch.compile(birds, backend="openvino")(picture)
    torch.testing.assert_close(compiled, birds(picture), rtol=5e-2, atol=5e-2)
