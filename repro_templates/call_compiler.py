import torch
from torch._dynamo import lookup_backend
from torch.fx.experimental.proxy_tensor import make_fx


def fn(x):
    return torch.ops.aten.tanh(x)


x = torch.randn(2, 3)
compiler = lookup_backend("aot_eager_default_partitioner").kwargs["fw_compiler"]
compiled = compiler(make_fx(fn)(x), [x])
compiled([x])
