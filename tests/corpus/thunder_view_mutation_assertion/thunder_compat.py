"""What lightning-thunder 0.2.6 misses in newer releases of torch. Imported before thunder."""

import torch
from torch.fx import _lazy_graph_module


class NoLonger:
    """Stands for a method of torch.Tensor that is gone."""

    def __init__(self, name):
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments, **keywords):
        raise NotImplementedError(f"torch has no Tensor.{self.__name__} any more")


for method in {"align_as", "align_to", "has_names", "refine_names", "rename"} - set(dir(torch.Tensor)):
    setattr(torch.Tensor, method, NoLonger(method))
_lazy_graph_module._force_skip_lazy_graph_module_flag = True
