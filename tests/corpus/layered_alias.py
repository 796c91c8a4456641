r"""An output that is a view of an input in eager mode is a copy.

reach: exit 0, 1 op
shows: \.view\(
layer: soak
"""

from layered import step

step("faulty_alias")
