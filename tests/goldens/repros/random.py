import torch
import minifier_backends.faulty


def fn(x):
    return torch.nn.functional.dropout(x)


torch.manual_seed(0)
x = torch.randn(2, 3)
torch.manual_seed(0)
expected = fn(x)
torch.manual_seed(0)
actual = torch.compile(fn, backend="faulty_wrong", options={"op": "dropout", "factor": 1.5})(x)
torch.testing.assert_close(actual, expected)

# wrong-result: output 0 is off by 0.02
# torch TORCH, Python PYTHON, Linux MACHINE
