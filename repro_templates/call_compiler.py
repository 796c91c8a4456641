import torch
from torch._dynamo import lookup_backend
from torch.fx.experimental.proxy_tensor import make_fx


def fn(grad, x):
    return torch.ops.aten.tanh_backward(grad, x)


grad = torch.randn(2, 3)
x = torch.randn(2, 3)
compiler = lookup_backend("aot_eager_default_partitioner").kwargs["fw_compiler"]
compiler(make_fx(fn)(grad, x), [grad, x])
