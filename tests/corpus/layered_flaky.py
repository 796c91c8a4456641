r"""The compiled code of a tanh fails in half of its calls.

reach: exit 0, 1 op
shows: for .* in range\(.*torch\.tanh|torch\.tanh\(x\).*for .* in range\(
layer: soak
"""

from layered import step

step("faulty_flaky", times=40, probability=0.5, stage="run")
