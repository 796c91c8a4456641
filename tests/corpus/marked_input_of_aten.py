r"""An input has a mark that no Case holds: the ATen graph shows the failure, and Dynamo's does not.

reach: exit 0, 1 op
shows: return torch\.ops\.aten\.tanh\(x\).*no lowering for aten\.tanh
"""

import torch
from stepped import f, w, x

x.odd_mark = True
torch.compile(f, backend="oddlib_lowers")(x, w)
