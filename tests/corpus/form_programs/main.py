r"""A native program with a table of its results' dtypes knows 32-bit integers only.

reach: exit 0, 1 op
shows: argmax.*backend="programs"
layer: soak
"""

import runtime
import torch

tagger = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
with torch.no_grad():
    print(torch.compile(lambda i: tagger(i).softmax(-1).argmax(-1), backend="programs")(torch.arange(6)).dtype)
