import torch
import minifier_backends.faulty


def fn(x):
    return x.view(-1)


def sharing(*tensors):
    """For each tensor, the first one that lives in the same storage."""
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [storages.index(storage) for storage in storages]


torch.manual_seed(0)
x = torch.randn(2, 3)
expected = sharing(x, fn(x))
actual = sharing(x, torch.compile(fn, backend="faulty_stride", options={"op": "view"})(x))
assert actual == expected, "the results do not share memory as in eager"

# wrong-result: output 0 does not share memory with the input x, in eager it does
# torch TORCH, Python PYTHON, Linux MACHINE
