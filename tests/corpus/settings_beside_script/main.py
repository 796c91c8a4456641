r"""A backend reads its settings in the current folder whenever it compiles: the file goes next to the repro.

reach: exit 0, 1 op
shows: Reads acme\.json
layer: soak
"""

import acme
import torch

torch.compile(lambda x: torch.tanh(torch.sin(x)) + 1, backend="acme")(torch.ones(3))
