r"""What is computed from a tanh has other strides.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*stride
layer: soak
"""

from layered import step

step("faulty_stride")
