"""The first call of the compiled function works, the second raises."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_on_call", options={"call": 2})
with torch.no_grad():
    for call in (1, 2, 3):
        print("call", call, compiled(make_inputs()).shape)
