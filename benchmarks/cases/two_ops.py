"""Two ops that the backend refuses together, one at the start of 315 and one at their end."""

import pocket  # noqa: F401 - registers the backend
import torch
from pocket.transformer import Transformer

torch.manual_seed(0)
model = torch.compile(Transformer().eval(), backend="pocket_two")
with torch.no_grad():
    print(model(torch.randint(0, 100, (2, 16))).shape)
