r"""The backend refuses a matmul of a transposed operand, while another exception is handled; it is an instance.

reach: exit 0, 1 op
shows: (\.t\(\)|as_strided|\.mT|\.T\b|transpose).*matmul|matmul.*(\.t\(\)|as_strided)
layer: soak
"""

import torch


class Strict:
    def __init__(self, level):
        self.level = level

    def __call__(self, gm, inputs):
        is_strict = self.level >= 3 and not all(x.is_contiguous() for x in inputs)
        if is_strict and any(node.target is torch.matmul for node in gm.graph.nodes):
            raise RuntimeError("no lowering for matmul")
        return gm.forward


def f(x, w):
    return torch.sin(torch.cos(x) + 1).sum() + torch.matmul(x, w).cos()


strict = Strict(level=3)
try:
    {}[0]
except KeyError:
    torch.compile(f, backend=strict)(torch.randn(8, 4).t(), torch.randn(8, 3))
