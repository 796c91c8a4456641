"""A backend that fails on a tanh only if the process is in a certain state."""

import os
import sys

import torch
import torch._dynamo.config
import torch._inductor.config
from torch._dynamo import register_backend

from oddlib import settings
from oddlib.backends import refuse

COMPILING = {
    "always": lambda: True,
    "no_grad": lambda: not torch.is_grad_enabled(),
    "autocast without cache": lambda: torch.is_autocast_enabled("cpu") and not torch.is_autocast_cache_enabled(),
    "default dtype": lambda: torch.get_default_dtype() is torch.float64,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "threads": lambda: torch.get_num_threads() == 3,
    "dynamo's config": lambda: torch._dynamo.config.recompile_limit == 3,
    "inductor's config": lambda: torch._inductor.config.triton.cudagraphs,
    "tuned": lambda: torch._inductor.config.max_autotune,
    "knobs": lambda: getattr(sys.modules.get("odd_knobs"), "depth", 0) == 7,
    "own config": lambda: settings.unroll == 16,
    "own nested config": lambda: settings.schedule.greedy,
    "variable": lambda: os.environ.get("TORCH_ODDLIB_FUSE") == "2",
}
RUNNING = {
    "inference mode": torch.is_inference_mode_enabled,
    "device": lambda: torch.get_default_device().type == "meta",
}


@register_backend
def oddlib_when(gm, example_inputs, *, options):
    """Refuses the tanh if, and when, the condition holds that the option `when` names."""
    if COMPILING.get(options["when"], bool)():
        refuse(gm, "tanh")

    def run(*args):
        if RUNNING.get(options["when"], bool)():
            refuse(gm, "tanh")
        return gm.forward(*args)

    return run


def refuses_at_run(name, is_odd):
    """Register a backend that refuses the tanh when this holds of the tensors of a call."""

    def backend(gm, example_inputs):
        def run(*args):
            if is_odd([value for value in args if isinstance(value, torch.Tensor)]):
                refuse(gm, "tanh")
            return gm.forward(*args)

        return run

    register_backend(backend, name=name)


refuses_at_run("oddlib_inference_tensor", lambda given: any(x.is_inference() for x in given))
refuses_at_run("oddlib_overlapping", lambda given: len({x.untyped_storage().data_ptr() for x in given}) < len(given))
refuses_at_run(
    "oddlib_expanded_gradient",  # a tensor that repeats its values and is differentiated
    lambda given: any(x.requires_grad and not x.is_leaf and 0 in x.stride() for x in given),
)


@register_backend
def oddlib_not_a_leaf(gm, example_inputs):
    if any(isinstance(x, torch.Tensor) and x.requires_grad and not x.is_leaf for x in example_inputs):
        refuse(gm, "tanh")
    return gm.forward
