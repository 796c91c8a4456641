import torch


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3, requires_grad=True)
y = torch.compile(fn, backend="eager")(x)
y.backward(torch.randn_like(y))
