r"""The script registers the backend of a module beside it, which drops all keyword arguments.

reach: exit 0, 1 op
shows: from backend import fast.*alpha=2\.0
layer: soak
"""

import torch
from backend import fast

torch._dynamo.register_backend(fast, name="fast")
torch.compile(lambda x: torch.add(x.tanh(), x, alpha=2.0).relu(), backend="fast")(torch.randn(3))
