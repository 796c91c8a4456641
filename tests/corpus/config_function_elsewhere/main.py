"""A configuration holds a function of a module in a folder that the script appends to the import path.

reach: exit 0, 1 op
shows: Needs the folder with refusing on PYTHONPATH
layer: soak
"""

import sys

sys.path.append("passes")

import refusing
import torch
from configured import acme
from torch._inductor import config

config.post_grad_custom_post_pass = refusing.refused
torch.compile(lambda x: torch.relu(torch.tanh(x + 1)) * 2, backend=acme)(torch.ones(3))
