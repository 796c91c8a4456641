"""Compiled code in a cache by a hash of the graph, from which the numbers are left out.

Fault: a second graph, with other numbers, runs the code of the first.
"""

from __future__ import annotations

import hashlib
import re

import torch
from torch._dynamo import register_backend

_NUMBER = re.compile(r"\b\d+(\.\d*)?\b")
_CACHE: dict[str, torch.fx.GraphModule] = {}


def _key(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> str:
    shapes = [tuple(x.shape) for x in inputs if isinstance(x, torch.Tensor)]
    return hashlib.sha256((_NUMBER.sub("n", gm.code) + repr(shapes)).encode()).hexdigest()


@register_backend
def cached(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    return _CACHE.setdefault(_key(gm, inputs), gm).forward
