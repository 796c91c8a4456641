r"""The update of an input is lost.

reach: exit 0, 1 op
shows: \.add_\(
layer: soak
"""

from layered import step

step("faulty_mutation", count=True)
