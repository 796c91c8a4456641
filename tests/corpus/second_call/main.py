r"""One of several graphs raises at its second call: the backend gives the memory of a tanh back after the first.

reach: exit 0, 1 op
shows: tanh\(.*workspace of tanh
hides: cos\(
layer: test
"""

import pooled
import torch


@torch.compile(backend="pooled")
def saturate(signal, level):
    """Limit a signal; a negative level turns it round first, a branch at which Dynamo breaks the graph."""
    limited = signal / (signal.abs() + 1)
    if level.mean() < 0:
        level = -level
    return torch.tanh(limited * level) - torch.cos(level)


torch.manual_seed(0)
for _ in range(40):
    saturate(torch.randn(6), torch.randn(6))
