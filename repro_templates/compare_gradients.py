import torch


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3, requires_grad=True)
tangent = torch.randn(2, 3)
expected = torch.autograd.grad(fn(x), x, tangent)
actual = torch.autograd.grad(torch.compile(fn, backend="eager")(x), x, tangent)
torch.testing.assert_close(actual, expected)
