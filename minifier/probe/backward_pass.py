"""Runs a backward pass."""

from __future__ import annotations

from typing import Any

import torch

from minifier.compare.results import leaves


def run_backward(result: Any) -> None:
    """Run the backward pass of all results that require grad, with random tangents."""
    outputs = [leaf for leaf in leaves(result)[0] if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.randn_like(leaf) for leaf in outputs])
