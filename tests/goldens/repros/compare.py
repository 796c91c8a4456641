import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh(x)


torch.manual_seed(0)
x = torch.randn(2, 3)
expected = fn(x)
actual = torch.compile(fn, backend="faulty_wrong")(x)
torch.testing.assert_close(actual, expected)

# wrong-result: output 0 is off by 0.02
# torch TORCH, Python PYTHON, Linux MACHINE
