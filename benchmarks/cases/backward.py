"""One op of the backward graph that the backend refuses, when a transformer is trained."""

import pocket  # noqa: F401 - registers the backend
import torch
from pocket.transformer import Transformer

torch.manual_seed(0)
model = torch.compile(Transformer(), backend="pocket_train")
model(torch.randint(0, 100, (2, 16))).square().mean().backward()
