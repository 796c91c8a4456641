import resource
import torch
import oddlib.deadly


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))  # it takes all memory: this ends it at 4 GiB
torch.compile(fn, backend="oddlib_ends", options={"how": "hoard", "stage": "compile"})(x)

# RuntimeError: can't allocate memory
# torch TORCH, Python PYTHON, Linux MACHINE
