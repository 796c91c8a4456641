r"""The compiler of the backward graph ends the process without a word.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*\.backward\(
says: exit status 7
layer: soak
"""

from layered import step

step("faulty_exit", trains=True, op="tanh_backward", level="backward", code=7)
