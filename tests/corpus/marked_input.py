r"""An input has a mark that no Case holds: Dynamo's graph does not show the failure, and the script is reduced.

reach: exit 0, 4 statements
shows: odd_mark.*no lowering for aten\.tanh
"""

import torch
from stepped import f, w, x

x.odd_mark = True
torch.compile(f, backend="oddlib_lowers")(x, w)
