import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh(x)


torch.manual_seed(0)
x = torch.randn(2, 3)
compiled = torch.compile(fn, backend="faulty_flaky", options={"probability": 0.6, "stage": "run"})
for attempt in range(8):
    compiled(x)

# minifier_backends.errors.TransientError: compile server did not answer while lowering tanh
# torch TORCH, Python PYTHON, Linux MACHINE
# Shows in about 6 of 10 attempts.
