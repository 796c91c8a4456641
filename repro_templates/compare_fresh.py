import torch


def fn(x):
    return x.tanh_()


def inputs():
    return [torch.ones(2, 3)]


expected = fn(*inputs())
actual = torch.compile(fn, backend="eager")(*inputs())
torch.testing.assert_close(actual, expected)
