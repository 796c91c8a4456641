import faulthandler
import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh(x)


x = torch.randn(2, 3)
faulthandler.dump_traceback_later(20, exit=True)  # it hangs: this ends it after 20 s
torch.compile(fn, backend="faulty_hang")(x)

# timeout: no end
# torch TORCH, Python PYTHON, Linux MACHINE
