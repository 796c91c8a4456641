"""One op that the backend refuses, in the middle of 315."""

import pocket  # noqa: F401 - registers the backend
import torch
from pocket.transformer import Transformer

torch.manual_seed(0)
model = torch.compile(Transformer().eval(), backend="pocket_one")
with torch.no_grad():
    print(model(torch.randint(0, 100, (2, 16))).shape)
