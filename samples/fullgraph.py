"""Compiled with fullgraph=True, which allows no graph break; the compiler has no lowering for one op."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_raise", fullgraph=True)
with torch.no_grad():
    print(compiled(make_inputs()))
