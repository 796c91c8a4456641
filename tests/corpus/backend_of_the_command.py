r"""The command names another backend than the program, and what registers it; that backend refuses an op.

reach: exit 0, 1 op
shows: import picky\n.*backend="picky_relu"
hides: mode=
run: --backend picky_relu --import picky
layer: test
"""

import torch

model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Tanh()), mode="max-autotune")
print(model(torch.randn(3, 4)).sum() > 0)
