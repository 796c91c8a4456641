r"""The script puts a folder on the import path; the repro has the code that it finds there.

reach: exit 0, 4 statements
shows: graph_break\(\)
hides: mine|import sys
layer: soak
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import torch
from mine import risky

torch.compile(lambda x: torch.relu(risky(torch.sin(x))), backend="eager", fullgraph=True)(torch.ones(3))
