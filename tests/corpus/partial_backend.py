r"""The backend is a functools.partial of a function in a package; at its level a tanh cannot be compiled.

reach: exit 0, 1 op
shows: tanh\(.*partial\(.*level=3
hides: linear
layer: test
"""

from functools import partial

import torch
from oddlib.backends import at_level
from torch import nn


class Autoencoder(nn.Module):
    """Narrows a spectrum to a code of four numbers and widens it again."""

    def __init__(self, sizes=(32, 28, 24, 20, 16, 12, 8, 4)):
        super().__init__()
        back = sizes[::-1]
        self.narrow = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))
        self.widen = nn.ModuleList(map(nn.Linear, back, back[1:]))

    def forward(self, spectrum):
        x = spectrum
        for layer in self.narrow:
            x = nn.functional.leaky_relu(layer(x), 0.1)
        code = torch.tanh(x)
        for layer in self.widen:
            code = nn.functional.leaky_relu(layer(code), 0.1)
        return (code - spectrum).square().mean()


torch.manual_seed(0)
backend = partial(at_level, level=3, label="nightly")
print(torch.compile(Autoencoder(), backend=backend)(torch.rand(10, 32)).item())
