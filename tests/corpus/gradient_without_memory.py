r"""An operand has no memory: the gradient of sgn is zero, and torch makes it so. Example values of Dynamo have some.

reach: exit 0, 1 op
shows: torch\._efficientzerotensor\(.*no memory
layer: soak
"""

import torch


def load(gm, inputs):
    def run(*args):
        if any(value._is_zerotensor() for value in args):
            raise RuntimeError("an operand has no memory")
        return gm(*args)

    return run


x = torch.randn(2, 3, requires_grad=True)
(gradient,) = torch.autograd.grad(torch.sgn(x).sum(), x)
torch.compile(lambda x, y: torch.cos(torch.sin(x)) + y, backend=load)(x.detach(), gradient)
