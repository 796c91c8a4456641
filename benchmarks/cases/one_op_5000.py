"""One op that the backend refuses, in the middle of 5,015: the transformer with 200 layers."""

import pocket  # noqa: F401 - registers the backend
import torch
from pocket.transformer import Transformer

torch.manual_seed(0)
model = torch.compile(Transformer(layers=200).eval(), backend="pocket_one")
with torch.no_grad():
    print(model(torch.randint(0, 100, (2, 16))).shape)
