r"""The compiled code fails while it runs, where a cumsum has a value above 1.5; the backend is a partial function.

reach: exit 0, 1 op
shows: from planted import refuse_values.*cumsum\(.*functools\.partial\(refuse_values.*OverflowError
says: OverflowError (in|while) \w+ing|OverflowError running
layer: soak
"""

import functools

import torch
from planted import refuse_values

torch.manual_seed(0)


@torch.compile(backend=functools.partial(refuse_values, target="cumsum", above=1.5))
def score(x, w):
    for _ in range(5):
        x = torch.relu(x @ w) + 0.01 * torch.sin(x)
        x = x / x.abs().sum(-1, keepdim=True)
    return (torch.log1p(torch.cumsum(x * 3, -1).abs()) * 2).mean()


print(score(torch.randn(8, 32), torch.randn(32, 32)))
