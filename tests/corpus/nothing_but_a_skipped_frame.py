r"""The backend gives its graph back to Dynamo.

reach: exit 1
says: SkipFrame
layer: soak
"""

import torch
from torch._dynamo.exc import SkipFrame


def backend(gm, inputs):
    raise SkipFrame("not for me")


torch.compile(torch.sin, backend=backend)(torch.ones(2))
