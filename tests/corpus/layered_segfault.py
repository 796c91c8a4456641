r"""The compiled code of a tanh dies by SIGSEGV when it runs.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*backend="faulty_segfault"
says: SIGSEGV
layer: soak
"""

from layered import step

step("faulty_segfault", stage="run")
