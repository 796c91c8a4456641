import torch
import oddlib


def fn(x):
    return torch.sin(x)


def inputs():
    torch.manual_seed(0)
    return [torch.randn(2, 3)]


expected, actual = inputs(), inputs()
fn(*expected)
torch.compile(fn, backend="oddlib_overwrites")(*actual)
torch.testing.assert_close(actual, expected)

# wrong-result: output 0 is off by 0.02
# torch TORCH, Python PYTHON, Linux MACHINE
