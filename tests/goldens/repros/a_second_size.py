import torch
import minifier_backends.faulty


def fn(x):
    a = x.size(0)
    b = torch.tanh(x)
    return b + a


x = torch.randn(4, 3)
compiled = torch.compile(fn, backend="faulty_dynamic")
compiled(torch.randn(5, 3))  # another size: from now on it is a symbol
compiled(x)

# minifier_backends.errors.DynamicShapeError: tanh needs a size that is known when compiling
# torch TORCH, Python PYTHON, Linux MACHINE
