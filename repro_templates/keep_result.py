import torch


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
compiled = torch.compile(fn, backend="eager")
first, second = compiled(x), compiled(x)
assert first.data_ptr() != second.data_ptr(), "the result is written over the result of an earlier call"
