r"""An importer maps each op by its name and executes the graph itself: wrongly, a permute to a last dimension.

reach: exit 0, 2 ops
shows: Importer\(.*permute|permute.*Importer\(
layer: soak
"""

import torch
from importer import Importer

conv, norm = torch.nn.Conv2d(3, 8, 4, 4), torch.nn.LayerNorm(8)


def patches(x):
    return norm(conv(x).flatten(2).permute(0, -1, 1)).relu().mean(1)


with torch.no_grad():
    print(torch.compile(patches, backend=Importer(verbose=True))(torch.randn(2, 3, 16, 16)))
