r"""A fault of the program's own comes first and a failure of the backend in two graphs after it; all are swallowed.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*LoweringError
layer: soak
"""

import oddlib
import torch


def attempt(fn, *args):
    try:
        torch.compile(fn, backend="oddlib_tanh")(*args)
    except Exception as error:
        print(type(error).__name__)


table = torch.zeros(4)
attempt(lambda table, i: table[i].cos(), table, 9)
attempt(lambda x: torch.tanh(x.sin()).exp(), table)
attempt(lambda x: torch.tanh(x.cos()).abs(), table)
