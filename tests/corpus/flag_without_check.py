"""A wrong result that no graph shows again, in a script that checks nothing.

reach: exit 4
layer: soak
"""

import torch
from flagged import flagged

FLAG = True
print(torch.compile(lambda x: torch.relu(torch.sin(x)) * 3, backend=flagged)(torch.rand(4, 4)).sum())
