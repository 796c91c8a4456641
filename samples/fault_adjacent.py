"""Fails because a tanh takes the result of a softmax; the other softmaxes do no harm."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel(steps=(lambda x: x.softmax(dim=-1), torch.tanh)).eval()
compiled = torch.compile(model, backend="faulty_adjacent")
with torch.no_grad():
    print(compiled(make_inputs()))
