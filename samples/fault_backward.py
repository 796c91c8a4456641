"""The forward pass works; the backward graph, compiled by AOTAutograd, has an op with no lowering."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel()
compiled = torch.compile(model, backend="faulty_backward")
loss = compiled(make_inputs()).square().mean()
loss.backward()
print("loss", loss.item())
