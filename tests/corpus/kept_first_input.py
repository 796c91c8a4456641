r"""Compiled code keeps the values that the call which compiled it had: a later call with another input is wrong.

reach: exit 0, 1 op
shows: compiles it with
layer: soak
"""

import oddlib  # registers the backend
import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((3,), 2.0), requires_grad=False)

    def forward(self, x, y):
        return (torch.tanh(x) * y).exp() + 1


scale = Scale()
compiled = torch.compile(scale, backend="oddlib_keeps_inputs")
for factor in (2.0, 3.0):
    scale.by.fill_(factor)
    compiled(torch.full((3,), factor), torch.full((3,), factor))
