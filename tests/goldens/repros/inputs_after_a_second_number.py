import torch
import oddlib


def fn(x, y):
    return y / x


def inputs():
    torch.manual_seed(0)
    x = 2.0
    y = torch.randn(2, 3)
    return [x, y]


expected, actual = inputs(), inputs()
fn(*expected)
compiled = torch.compile(fn, backend="oddlib_overwrites")
x, y = inputs()
compiled(1.0, y)  # another number: from now on it is a symbol
compiled(*actual)
torch.testing.assert_close(actual, expected)

# wrong-result: input y after the call is off by 1
# torch TORCH, Python PYTHON, Linux MACHINE
