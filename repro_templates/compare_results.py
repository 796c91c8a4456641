import torch


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
expected = fn(x)
actual = torch.compile(fn, backend="eager")(x)
torch.testing.assert_close(actual, expected)
