r"""The compiled function raises when it runs, and only for some values: an accumulator of cumsum runs over.

reach: exit 0, 1 op
shows: cumsum\(.*accumulator of cumsum ran over
hides: (log1p|sqrt)\(
layer: test
"""

import oddlib
import torch


@torch.compile(backend="oddlib_values")
def quantiles(weights, mixing):
    """Smooth weights by a mixing matrix, then find how much of each row lies before each place."""
    for _ in range(15):
        spread = torch.relu(weights @ mixing)
        weights = 0.5 * weights + spread / (spread.sum(dim=-1, keepdim=True) + 0.1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
    before = torch.cumsum(weights * 4, dim=-1)
    return torch.log1p(before).sqrt().mean()


torch.manual_seed(0)
print(quantiles(torch.rand(6, 20), torch.rand(20, 20)).item())
