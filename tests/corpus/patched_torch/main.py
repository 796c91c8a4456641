r"""The backend's module needs another module to be imported first, for its effect on torch.

reach: exit 0, 1 op
shows: \Aimport zz_patch\nimport torch\n
layer: soak
"""

import zz_patch  # isort: skip
import lower
import torch

torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=lower.refuse)(torch.randn(4))
