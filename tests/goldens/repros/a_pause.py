import copy
import time
import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh(x)


def inputs():
    torch.manual_seed(0)
    return [torch.randn(2, 3)]


expected = fn(*inputs())
compiled = torch.compile(fn, backend="faulty_wrong")
compiled(*map(copy.deepcopy, inputs()))
time.sleep(0.3)
actual = compiled(*inputs())
torch.testing.assert_close(actual, expected)

# wrong-result: output 0 is off by 0.02
# torch TORCH, Python PYTHON, Linux MACHINE
# It takes the pause between the calls: without it the failure does not show each time.
