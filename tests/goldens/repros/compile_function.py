import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
torch.compile(fn, backend="faulty_raise")(x)

# minifier_backends.errors.LoweringError: no lowering for tanh
# torch TORCH, Python PYTHON, Linux MACHINE
