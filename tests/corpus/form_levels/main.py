r"""A compiler object with a configuration, as graph compilers of accelerators have, removes two transposes that differ.

reach: exit 0, 3 ops
shows: Compiler\(.*Level|Level.*Compiler\(
layer: soak
"""

import torch
from levels import Compiler, Config, Level

torch.manual_seed(0)
qkv = torch.nn.Linear(8, 24)


def heads(x):
    q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in qkv(x).chunk(3, -1))
    scores = q @ k.transpose(2, 3)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


with torch.no_grad():
    print(torch.compile(heads, backend=Compiler(Config(level=Level.FULL)))(torch.randn(2, 5, 8)).shape)
