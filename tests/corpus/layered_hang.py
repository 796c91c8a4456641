r"""The compiled code of a tanh never comes back.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\)
run: --timeout 5
layer: soak
"""

from layered import step

step("faulty_hang", stage="run", dynamic=True)
