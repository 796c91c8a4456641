r"""AOTAutograd raises while compiling: a custom operator gives its argument another storage and another size.

source: https://github.com/pytorch/pytorch/issues/139257
reach: exit 0, 2 ops
shows: set_data.*expand
"""

import torch
from torch import nn


@torch.library.custom_op("resized::set_data", mutates_args=["cache"])
def set_data(cache: torch.Tensor, values: torch.Tensor) -> None:
    cache.set_(values)


@set_data.register_fake
def _(cache, values):
    cache.set_(values)


class CachedKeys(nn.Module):
    """Keeps the keys of the last call in a buffer that starts empty."""

    def __init__(self, width=8):
        super().__init__()
        self.key, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.register_buffer("cache", torch.empty(0))

    def forward(self, x):
        keys = self.norm(self.key(x))
        scores = torch.softmax(x @ keys.T, dim=-1)
        cache = self.cache
        set_data(cache, keys * 3)
        return scores @ (cache / 3)


torch.manual_seed(0)
model = CachedKeys().eval()
with torch.no_grad():
    print(torch.compile(model, backend="aot_eager")(torch.randn(4, 8)).shape)
