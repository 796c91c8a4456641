import torch
import minifier_backends.faulty


def fn(x):
    a = x.size(0)
    b = torch.tanh(x)
    return b + a


x = torch.randn(4, 3)
torch._dynamo.mark_dynamic(x, 0)
torch.compile(fn, backend="faulty_dynamic")(x)

# minifier_backends.errors.DynamicShapeError: tanh needs a size that is known when compiling
# torch TORCH, Python PYTHON, Linux MACHINE
