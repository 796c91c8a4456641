import hashlib
import re

import torch
from torch._dynamo import register_backend

_CACHE: dict[str, torch.fx.GraphModule] = {}


@register_backend
def cached(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    shapes = [tuple(x.shape) for x in inputs if isinstance(x, torch.Tensor)]
    key = hashlib.sha256((re.sub(r"\b\d+(\.\d*)?\b", "n", gm.code) + repr(shapes)).encode()).hexdigest()
    return _CACHE.setdefault(key, gm).forward
