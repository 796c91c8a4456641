"""The function of torch.compile's documentation; the compiler has no lowering for its cos, and raises."""

import minifier_backends.faulty
import torch


@torch.compile(backend="faulty_raise", options={"op": "cos"})
def foo(x, y):
    a = torch.sin(x)
    b = torch.cos(y)
    return a + b


print(foo(torch.randn(10, 10), torch.randn(10, 10)))
