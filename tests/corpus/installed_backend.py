r"""A backend that torch finds by the entry point of its distribution, and that nothing imports, refuses an op.

reach: exit 0, 1 op
shows: torch\.cos\(x\).*"op": "cos".*minifier-backends 0\.1\.0
hides: import minifier_backends
layer: test
"""

import torch

call = torch.compile(lambda x: torch.cos(torch.sin(x)) * 2, backend="faulty_installed", options={"op": "cos"})
call(torch.randn(3))
