r"""The gradient of a tanh is half as large again, in bfloat16.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*torch\.autograd\.grad\(
"""

import minifier_backends.faulty
import torch


def f(x, w):
    for _ in range(5):
        x = torch.sin(x) * 1.5
    return torch.sigmoid(torch.tanh(x @ w) * 2 - 0.5)


torch.manual_seed(0)
x, w = torch.randn(4, 8).bfloat16(), torch.randn(8, 8).bfloat16().requires_grad_()
torch.compile(f, backend="faulty_gradient", options={"factor": 1.5})(x, w).sum().backward()
