"""Fails because a softmax and a tanh are in one graph, although they are far apart in it."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_pair")
with torch.no_grad():
    print(compiled(make_inputs()))
