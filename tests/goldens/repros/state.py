import os

os.environ["TORCHINDUCTOR_FREEZING"] = "1"

import torch
import torch._dynamo.config
import minifier_backends.faulty

torch._dynamo.config.cache_size_limit = 3
torch.set_default_dtype(torch.float64)


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3, dtype=torch.float32)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    torch.compile(fn, backend="faulty_raise")(x)

# minifier_backends.errors.LoweringError: no lowering for tanh
# torch TORCH, Python PYTHON, Linux MACHINE
