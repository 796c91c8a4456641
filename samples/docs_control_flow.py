"""The function with control flow of torch.compile's documentation: three graphs, of which one fails.

Dynamo cannot follow `if b.sum() < 0` and breaks the graph there: one graph up to the condition, one for
each way on. Only the way through the branch multiplies a product, which the compiler cannot fuse. The
first call goes the other way and works.
"""

import minifier_backends.faulty
import torch


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


opt_toy_example = torch.compile(toy_example, backend="faulty_adjacent", options={"op": "mul", "with_op": "mul"})
for sign in (1, -1):
    print("sign", sign, opt_toy_example(torch.randn(10), sign * torch.ones(10)).shape)
