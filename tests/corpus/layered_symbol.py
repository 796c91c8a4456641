r"""A backend needs the sizes of a tanh, and dynamic=True hides them.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*dynamic=True
"""

from layered import step

step("faulty_dynamic", dynamic=True)
