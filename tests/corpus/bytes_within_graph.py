r"""Bytes are computed in int8 within the graph: its only result, a float, is wrong in values alone.

reach: exit 0, 1 op
shows: bitwise_xor\(
"""

import functools

import torch
from refused import distort


def contrast(image, mask):
    x = torch.tanh(torch.relu(image.float() / 255 - 0.5))
    flipped = torch.bitwise_xor(image, mask)
    return (flipped.float() * torch.sigmoid(x) + x.tanh()).sum(-1)


torch.manual_seed(0)
bytes_of = functools.partial(torch.randint, 0, 256, (4, 16), dtype=torch.uint8)
torch.compile(contrast, backend=functools.partial(distort, what="bitwise_xor>int8"))(bytes_of(), bytes_of())
