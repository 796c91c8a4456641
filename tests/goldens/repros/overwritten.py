import torch
import oddlib


def fn(x):
    return torch.tanh(x)


torch.manual_seed(0)
x = torch.randn(2, 3)
compiled = torch.compile(fn, backend="oddlib_buffers")
compiled(x)
first = compiled(x)
second = compiled(x)
assert first.data_ptr() != second.data_ptr(), "the result is written over the result of an earlier call"

# wrong-result: output 0 is written over the result of an earlier call
# torch TORCH, Python PYTHON, Linux MACHINE
