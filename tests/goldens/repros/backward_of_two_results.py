import torch
import minifier_backends.faulty


def fn(x, y):
    a = torch.tanh(x)
    b = torch.argmax(a)
    c = a * y
    return a, b, c


x = torch.randn(2, 3, requires_grad=True)
y = torch.randn(2, 3, requires_grad=True)
z, _, u = torch.compile(fn, backend="faulty_backward")(x, y)
torch.autograd.backward([z, u], [torch.randn_like(z), torch.randn_like(u)])

# minifier_backends.errors.LoweringError: no lowering for tanh_backward in a backward graph
# torch TORCH, Python PYTHON, Linux MACHINE
