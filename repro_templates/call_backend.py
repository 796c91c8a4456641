import torch
from torch._dynamo import lookup_backend


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
graph = torch.fx.symbolic_trace(fn)
lookup_backend("eager")(graph, [x])(x)
