"""The compiler of the forward graph aborts at a tanh of bfloat16, while a model trains.

reach: exit 0, 1 op
shows: tanh
says: SIGABRT
layer: soak
"""

import torch
from layered import step

step("faulty_abort", dtype=torch.bfloat16, trains=True, op="tanh", level="forward")
