r"""The compiled code of a tanh fails under inference mode alone.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*inference_mode
"""

import torch
from layered import step

with torch.inference_mode():
    step("faulty_inference")
