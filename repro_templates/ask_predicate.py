import torch


def fn(x):
    return torch.tanh(x)


def differs(compiled, eager):
    return (compiled[0] - eager[0]).abs().max() > 0.1


x = torch.randn(2, 3)
expected = fn(x)
actual = torch.compile(fn, backend="eager")(x)
assert not differs([actual], [expected]), "the compiled result differs from the eager one"
