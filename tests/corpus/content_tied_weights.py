r"""A backend refuses a tanh of a model with tied weights and a buffer that changes.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: class Net
"""

import torch
from strict import strict


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.arange(4.0))
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        self.scale.add_(1)
        return torch.tanh(self.second(self.first(x)) * self.scale).exp()


torch.compile(Net(), backend=strict, options={"words": ["tanh"]})(torch.randn(2, 4)).sum().backward()
