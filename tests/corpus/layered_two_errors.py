"""With a layer_norm the graph fails by another error than without it, of nearly the same text.

reach: exit 0, 2 ops
shows: layer_norm.*tanh.*FusionError
layer: soak
"""

from layered import step

step("faulty_two_errors", with_op="layer_norm")
