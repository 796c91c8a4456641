import torch
import minifier_backends.faulty
from torch._dynamo import lookup_backend


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
graph = torch.fx.symbolic_trace(fn)
lookup_backend("faulty_raise")(graph, [x])(x)

# minifier_backends.errors.LoweringError: no lowering for tanh
# torch TORCH, Python PYTHON, Linux MACHINE
