"""The backend fails only in the folder of the script: no repro of a graph shows it, and the script is kept.

reach: exit 4
says: no repro
"""

import os

import torch


def strict(gm, inputs):
    if os.path.exists("marker"):
        raise ValueError("not here")
    return gm.forward


torch.compile(lambda x: torch.sin(x) + 1, backend=strict)(torch.ones(3))
