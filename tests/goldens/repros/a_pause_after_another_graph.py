import time
import torch
import acme


backend = acme.Backend(2)


def earlier(x):
    return torch.relu(x)


def earlier2(x):
    return torch.relu(x)


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
compiled = torch.compile(fn, backend=backend)
torch.compile(earlier, backend=backend)(torch.ones(5))
for _ in range(2):
    compiled(x)
torch.compile(earlier2, backend=backend)(torch.ones(5))
time.sleep(1)
compiled(x)

# minifier_backends.errors.LoweringError: no lowering for tanh
# torch TORCH, Python PYTHON, Linux MACHINE
# It takes the calls of the backend ahead of the last one, which passes alone.
# It takes the pause between the calls: without it the failure does not show each time.
