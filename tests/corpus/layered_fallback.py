r"""A backend logs that it runs a graph with a tanh eagerly, and nothing fails.

reach: exit 0, 1 op
shows: return torch\.tanh\(x\).*falling back
run: --match-log "falling back to eager"
layer: soak
"""

from layered import step

step("faulty_fallback", trains=True, op="tanh", level="forward")
