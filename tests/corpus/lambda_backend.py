r"""A backend that the program defines as a lambda fails on any graph.

reach: exit 0, 1 op
shows: \nbackend = lambda gm, inputs: gm if len\(gm\.graph\.nodes\) < 3 else \{\}\[0\].*backend=backend.*KeyError
layer: soak
"""

import torch

backend = lambda gm, inputs: gm if len(gm.graph.nodes) < 3 else {}[0]  # noqa: E731

torch.compile(torch.sin, backend=backend)(torch.ones(3))
