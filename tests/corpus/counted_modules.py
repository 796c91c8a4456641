r"""Nothing counted: a hook for all modules, registered after the first call, is not called within the compiled model.

source: https://github.com/pytorch/pytorch/issues/117758
reach: exit 0, 11 statements
cause: tracing
"""

import collections

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook


class Profile:
    """Counts what the modules put out while it is open."""

    def __init__(self):
        self.elements = collections.Counter()

    def __enter__(self):
        self.handle = register_module_forward_hook(self.note)
        return self

    def note(self, module, inputs, output):
        self.elements[type(module).__name__] += output.numel()

    def __exit__(self, *exception):
        self.handle.remove()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolve = nn.Conv1d(3, 6, 3)
        self.norm = nn.GroupNorm(2, 6)
        self.activate = nn.GELU()

    def forward(self, signal):
        return self.activate(self.norm(self.convolve(signal))).mean(dim=2)


torch.manual_seed(56)
encoder = torch.compile(Encoder(), backend="eager")
signal = torch.randn(2, 3, 12)
print("norm", round(encoder(signal).norm().item(), 5))
with Profile() as profile:
    print("norm", round(encoder(signal).norm().item(), 5))
for name in ("Conv1d", "GroupNorm", "GELU"):
    print(name, profile.elements[name])
