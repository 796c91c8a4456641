r"""What is computed from a tanh has another dtype.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*dtype
layer: soak
"""

from layered import step

step("faulty_dtype", dynamic=True)
