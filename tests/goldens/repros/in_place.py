import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh_(x)


def inputs():
    torch.manual_seed(0)
    return [torch.randn(2, 3)]


expected = fn(*inputs())
actual = torch.compile(fn, backend="faulty_wrong", options={"op": "tanh_"})(*inputs())
torch.testing.assert_close(actual, expected)

# wrong-result: output 0 is off by 0.02
# torch TORCH, Python PYTHON, Linux MACHINE
