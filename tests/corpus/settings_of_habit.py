r"""The backend knows no tanh, whatever the script sets out of habit.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
hides: autocast|precision|deterministic|default_dtype|float64|dynamic|no_grad
"""

import oddlib
import torch

torch.set_float32_matmul_precision("high")
torch.use_deterministic_algorithms(True)
torch.set_default_dtype(torch.float64)

fn = torch.compile(lambda x: torch.tanh(x @ x.T).sum(dim=-1), backend="oddlib_tanh", dynamic=True)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    fn(torch.randn(4, 6))
