import torch
import oddlib


def fn(x):
    return torch.sin(x)


torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)
expected = fn(x)
actual = torch.compile(fn, backend="oddlib_detached")(x)
message = "requires_grad or is_leaf is not as in eager"
assert (actual.requires_grad, actual.is_leaf) == (expected.requires_grad, expected.is_leaf), message

# wrong-result: output 0 does not require grad, in eager it does
# torch TORCH, Python PYTHON, Linux MACHINE
