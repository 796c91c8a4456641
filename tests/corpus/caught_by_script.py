"""The script catches its failure and ends well: there is no source to reduce.

reach: exit 4
run: --level source
"""

import torch


def strict(gm, inputs):
    raise ValueError("never")


try:
    torch.compile(torch.sin, backend=strict)(torch.ones(3))
except Exception:
    print("caught")
