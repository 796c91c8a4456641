r"""The gradient of a tanh is half as large again.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*torch\.autograd\.grad\(
layer: test
"""

from layered import step

step("faulty_gradient", trains=True, factor=1.5)
