r"""The compiled code of a tanh fails in its second call.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*range\(2\).*WorkspaceError
layer: soak
"""

from layered import step

step("faulty_on_call", times=2)
