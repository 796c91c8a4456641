r"""Wrong numbers of inductor: torch's own switch makes its code for relu compute something else; the script passes.

reach: exit 0, 1 op
shows: inject_relu_bug_TESTING_ONLY.*relu\(.*assert_close
hides: linear|tanh
"""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Velocity(nn.Module):
    """A field of velocities for a flow: where a point at some time moves to."""

    def __init__(self, width=20):
        super().__init__()
        self.enter, self.leave, self.norm = nn.Linear(3, width), nn.Linear(width, 2), nn.LayerNorm(width)
        self.middle = nn.ModuleList(nn.Linear(width, width) for _ in range(5))

    def forward(self, point, time):
        x = torch.tanh(self.enter(torch.cat([point, time], dim=-1)))
        for number, layer in enumerate(self.middle):
            x = x + (torch.relu(layer(x)) if number == 3 else torch.tanh(layer(x)))
        return self.leave(self.norm(x))


torch.manual_seed(0)
field = torch.compile(Velocity().eval())
point = torch.randn(7, 2)
with torch.no_grad():
    for moment in (0.0, 0.5):
        point = point + 0.5 * field(point, torch.full((7, 1), moment))
print("spread of the points", point.std().item())
