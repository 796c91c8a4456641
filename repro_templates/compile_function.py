import torch


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
torch.compile(fn, backend="eager")(x)
