r"""A script catches its first failure; the graph of the second one is asked for.

reach: exit 0, 2 ops
shows: softmax.*tanh
says: \* graph 2
run: --graph 2
layer: test
"""

import oddlib
import torch

x = torch.randn(2, 3)
try:
    torch.compile(lambda x: torch.cos(torch.tanh(x)), backend="oddlib_tanh")(x)
except Exception:
    torch._dynamo.reset()
torch.compile(lambda x: torch.cos(torch.tanh(torch.softmax(torch.sin(x), -1))), backend="oddlib_pair")(x)
