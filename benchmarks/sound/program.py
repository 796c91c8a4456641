"""Compile a right model and call it, or train it: `python program.py llama --backend inductor --train`.

A model is one of models.py or transformer_models.py beside it.
"""

from __future__ import annotations

import argparse

import torch
from models import MODELS
from torch import Tensor


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    return parser.parse_args()


def summed(result: Tensor | tuple[Tensor, ...]) -> Tensor:
    """Return a loss: the mean square of all that is differentiable."""
    parts = result if isinstance(result, tuple) else (result,)
    return torch.stack([part.float().square().mean() for part in parts if part.requires_grad]).sum()


def main() -> None:
    asked = arguments()
    models = MODELS
    if asked.model not in models:
        from transformer_models import MODELS as models  # takes seconds to import

    torch.manual_seed(0)
    model, inputs = models[asked.model]()
    dtype = getattr(torch, asked.dtype)
    model = model.to(dtype)
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    if asked.channels_last:
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        model = model.to(memory_format=formats[inputs[0].dim()])
        inputs = tuple(x.to(memory_format=formats[x.dim()]) for x in inputs)
    model.train(asked.train)
    compiled = torch.compile(model, backend=asked.backend, dynamic=asked.dynamic or None)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=asked.autocast)
    if not asked.train:
        with torch.no_grad(), autocast:
            for count in (2, 1) if asked.dynamic and len(inputs[0]) == 2 else (len(inputs[0]),) * 2:
                result = compiled(*(x[:count] for x in inputs))
                print("result", [tuple(part.shape) for part in (result if isinstance(result, tuple) else (result,))])
        return
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        with autocast:  # for each step: until it ends, eager mode goes on with the weights that it has cast
            loss = summed(compiled(*inputs))
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
