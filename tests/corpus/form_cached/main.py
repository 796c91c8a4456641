r"""Compiled code in a cache, whose key has no numbers: a second graph with other numbers runs the code of the first.

reach: exit 0, 1 op
shows: earlier.*backend="cached"|backend="cached".*earlier
layer: test
"""

import cached
import torch


def warm(x):
    return (x * 2.0).sin() + 1.0


def train(x):
    return (x * 3.0).sin() + 4.0


torch.manual_seed(0)
x = torch.randn(5)
first = torch.compile(warm, backend="cached")(x)
second = torch.compile(train, backend="cached")(x)
torch.testing.assert_close(second, train(x))
