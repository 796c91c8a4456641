"""A backend fails where tanh and softmax are in one graph.

reach: exit 0, 2 ops
shows: tanh.*softmax.*PartitionError
layer: soak
"""

from layered import step

step("faulty_pair", dynamic=True)
