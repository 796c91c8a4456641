import torch


def fn(x):
    return x.view(-1)


def sharing(*tensors):
    """For each tensor, the first one that lives in the same storage."""
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [storages.index(storage) for storage in storages]


x = torch.randn(2, 3)
expected = fn(x)
actual = torch.compile(fn, backend="eager")(x)
assert sharing(x, actual) == sharing(x, expected), "the results do not share memory as in eager"
