"""Backends that fail on command. Importing this module registers all of them, with the tag "debug".

Each has a name of its own, fails at an op called "tanh" unless told otherwise by `options`, and computes
everything else eagerly:

    torch.compile(model, backend="faulty_raise", options={"op": "gelu", "stage": "run"})

`faulty_segfault`, `faulty_abort`, `faulty_exit` and `faulty_hang` do to the process what they say.
"""

from minifier_backends.faulty.condition import (
    faulty_adjacent,
    faulty_backward,
    faulty_dynamic,
    faulty_flaky,
    faulty_on_call,
    faulty_pair,
    faulty_two_errors,
)
from minifier_backends.faulty.crash import (
    faulty_abort,
    faulty_exit,
    faulty_hang,
    faulty_memory,
    faulty_raise,
    faulty_segfault,
    faulty_unsupported,
)
from minifier_backends.faulty.effect import (
    faulty_alias,
    faulty_fallback,
    faulty_gradient,
    faulty_inference,
    faulty_mutation,
)
from minifier_backends.faulty.value import faulty_dtype, faulty_nan, faulty_stride, faulty_wrong

__all__ = [
    "faulty_abort",
    "faulty_adjacent",
    "faulty_alias",
    "faulty_backward",
    "faulty_dtype",
    "faulty_dynamic",
    "faulty_exit",
    "faulty_fallback",
    "faulty_flaky",
    "faulty_gradient",
    "faulty_hang",
    "faulty_inference",
    "faulty_memory",
    "faulty_mutation",
    "faulty_nan",
    "faulty_on_call",
    "faulty_pair",
    "faulty_raise",
    "faulty_segfault",
    "faulty_stride",
    "faulty_two_errors",
    "faulty_unsupported",
    "faulty_wrong",
]
