r"""A configuration module beside the script is read by the backend of another package.

reach: exit 0, 1 op
shows: import odd_knobs\n.*odd_knobs\.depth = 7\n.*odd_knobs on PYTHONPATH
"""

import odd_knobs
import oddlib
import torch

odd_knobs.depth = 7
torch.compile(torch.tanh, backend="oddlib_when", options={"when": "knobs"})(torch.randn(2, 3))
