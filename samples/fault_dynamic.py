"""Compiled with dynamic=True, so that sizes are symbolic, and the compiler cannot have that at the tanh."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_dynamic", dynamic=True)
with torch.no_grad():
    for length in (6, 9):
        print(compiled(make_inputs(length)).shape)
