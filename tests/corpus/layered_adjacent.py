r"""A backend fails where one op of the backward graph reads another.

reach: exit 0, 2 ops
shows: tanh.*softmax.*\.backward\(.*FusionError
layer: soak
"""

from layered import step

step(
    "faulty_adjacent", trains=True, op="tanh_backward", with_op="_softmax_backward_data", level="backward", stage="run"
)
