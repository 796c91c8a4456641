r"""A backend without AOTAutograd raises in the backward pass, which autograd does.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*\.backward\(.*gradient of tanh ran over
"""

import torch
from stepped import f, w, x

torch.compile(f, backend="oddlib_raises_in_autograd")(x, w).sum().backward()
