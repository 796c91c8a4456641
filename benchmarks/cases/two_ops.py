"""Two ops that the backend refuses together, at the two ends of a transformer: 315 ops, or those of as many layers as
are given."""

import sys

import pocket  # noqa: F401 - registers the backend
import torch
from pocket.transformer import Transformer

torch.manual_seed(0)
layers = int(sys.argv[1]) if len(sys.argv) > 1 else 12
model = torch.compile(Transformer(layers).eval(), backend="pocket_two")
with torch.no_grad():
    print(model(torch.randint(0, 100, (2, 16))).shape)
