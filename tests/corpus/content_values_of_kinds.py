r"""A backend refuses a conversion, beside eight-bit floats, complex and empty inputs, formats and indices.

reach: exit 0, 1 op
shows: return x\.to\(\S+\)
"""

import torch
from strict import strict


def fn(x, c, e, image, i):
    image = torch.einsum("abcd,abcd->abcd", image, image).to("cpu", torch.float64, memory_format=torch.channels_last)
    c = torch.tanh(c * (1 + 2j)).abs()
    c[..., None, 1:3][i] = 3
    return (x.to(torch.float32) * 2).exp(), torch.cat([x.float().reshape(1, -1), e], 1), c + TABLE, image


TABLE = torch.randn(4)
torch.compile(fn, backend=strict, options={"words": ["to"]})(
    torch.randn(4).to(torch.float8_e4m3fn),
    torch.randn(4, dtype=torch.complex64).conj(),
    torch.empty(1, 0),
    torch.randn(1, 4, 2, 2),
    torch.tensor([0, 0]),
)
