r"""Each op becomes a function of numpy arrays, which round a little otherwise; any softmax is over the last axis.

reach: exit 0, 1 op
shows: softmax.*backend="arrays"
layer: soak
"""

import arrays
import torch

torch.manual_seed(0)
first, last = torch.nn.Linear(6, 16), torch.nn.Linear(16, 6)


def mixer(x):
    hidden = torch.tanh(first(x))
    return torch.relu(last(torch.softmax(hidden, 0) + hidden))


with torch.no_grad():
    print(torch.compile(mixer, backend="arrays")(torch.randn(4, 6)))
