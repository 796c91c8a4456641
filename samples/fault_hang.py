"""The compiler never comes back from the tanh. Stop it with Ctrl-C."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_hang")
with torch.no_grad():
    print(compiled(make_inputs()))
