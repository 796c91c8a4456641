"""Lets lightning-thunder 0.2.6 run on torch 2.13, which it does not know: imported first, as its users do."""

import torch
import torch.fx._lazy_graph_module as lazy_graph_module


def _is_gone(*_arguments, **_options):
    raise NotImplementedError("torch has no named tensors any more")


for name in ("align_as", "align_to", "has_names", "refine_names", "rename"):
    if not hasattr(torch.Tensor, name):
        setattr(torch.Tensor, name, _is_gone)
lazy_graph_module._force_skip_lazy_graph_module_flag = True
