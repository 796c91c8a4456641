"""Lets lightning-thunder 0.2.6 run on torch 2.13, which it does not know: imported first, as its users do."""

import torch
import torch.fx._lazy_graph_module as lazy_graph_module


def _gone(name):
    """A method of this name that raises: Thunder asks functions for their names."""

    def method(*_arguments, **_options):
        raise NotImplementedError("torch has no named tensors any more")

    method.__name__ = method.__qualname__ = name
    return method


for name in ("align_as", "align_to", "has_names", "refine_names", "rename"):
    if not hasattr(torch.Tensor, name):
        setattr(torch.Tensor, name, _gone(name))
lazy_graph_module._force_skip_lazy_graph_module_flag = True
