r"""The compiler takes memory at a tanh until it has no more.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*MemoryError
layer: soak
"""

from layered import step

step("faulty_memory", limit_mib=48)
