import torch


def fn(x):
    return x.tanh_()


def inputs():
    return [torch.ones(2, 3)]


expected, actual = inputs(), inputs()
fn(*expected)
torch.compile(fn, backend="eager")(*actual)
torch.testing.assert_close(actual, expected)
