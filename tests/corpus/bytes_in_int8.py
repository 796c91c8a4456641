r"""Bytes are computed in int8, wrong in dtype and in values, beside an op that is wrong only in values.

reach: exit 0, 1 op
shows: bitwise_xor\(
hides: hardtanh\(
layer: soak
"""

import functools

import torch
from torch.nn.functional import hardtanh


class WrongBytes(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        result = super().call_function(target, args, kwargs)
        if target is torch.bitwise_xor:
            return result.to(torch.int8)
        return result * 1.01 if target is hardtanh else result


def contrast(image, mask):
    x = hardtanh(torch.relu(image.float() / 255 - 0.5))
    flipped = torch.bitwise_xor(image, mask)
    return flipped, flipped.float() * torch.sigmoid(x) + x.tanh()


torch.manual_seed(0)
bytes_of = functools.partial(torch.randint, 0, 256, (4, 16), dtype=torch.uint8)
torch.compile(contrast, backend=lambda gm, inputs: WrongBytes(gm).run)(bytes_of(), bytes_of())
