r"""The program compiles nothing; the command names a backend for its modules, whose results are wrong.

reach: exit 0, 1 op
shows: from compilers import wrong_sin.*torch\.sin\(
run: --backend compilers:wrong_sin
layer: soak
"""

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.sin(self.linear(x)).relu()


x = torch.randn(3, 4)
print("loss", torch.nn.MSELoss()(torch.nn.Sequential(Block(), torch.nn.Flatten())(x), x).item() > 0)
