r"""The second call of compiled code in a process fails, whatever the graph is; the backend is given to Module.compile.

reach: exit 0, 1 op
shows: for _ in range\(2\):\n    compiled\(x\)
layer: soak
"""

import torch

count = 0


def counting(gm, inputs):
    def run(*args):
        global count
        count += 1
        if count == 2:
            raise RuntimeError("the workspace is in use")
        return gm.forward(*args)

    return run


class Net(torch.nn.LayerNorm):
    def forward(self, x):
        return torch.nn.functional.silu(super().forward(x))


for size in (8, 6):
    net = Net(size)
    net.compile(backend=counting)
    net(torch.ones(2, size))
