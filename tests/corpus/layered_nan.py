r"""A tanh gives NaN in one element.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
says: non-finite
layer: soak
"""

from layered import step

step("faulty_nan")
