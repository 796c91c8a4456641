r"""What the compiled call raises, eager raises too: an index is out of range.

reach: exit 1
says: without the backend
layer: test
"""

import oddlib
import torch

torch.compile(lambda x, i: torch.gather(x, 0, i) * 2, backend="oddlib_tanh")(torch.ones(3), torch.tensor([7]))
