import torch


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
compiled = torch.compile(fn, backend="eager")
for _ in range(2):
    compiled(x)
