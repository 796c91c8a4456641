import logging
import torch
import oddlib

logging.basicConfig()
logging.getLogger("acme").setLevel(logging.DEBUG)


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
torch.compile(fn, backend="oddlib_gives_up")(x)

# Nothing is raised: the failure is this line of the log. DEBUG acme: gave up
# torch TORCH, Python PYTHON, Linux MACHINE
