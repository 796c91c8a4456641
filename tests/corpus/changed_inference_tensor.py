r"""The compiled code changes inputs without version counters, those of inference mode, before it fails for a value.

reach: exit 0, 1 op
shows: RuntimeError: too large
layer: soak
"""

import torch


def emptying(gm, inputs):
    def run(*args):
        is_large = bool((args[0] > 5).any())
        args[0].data.mul_(0)
        if is_large:
            raise RuntimeError("too large")
        return gm.forward(*args)

    return run


with torch.inference_mode(True):
    torch.compile(lambda x: torch.sigmoid(x.sin()) + 1, backend=emptying)(torch.full((4,), 9.0))
