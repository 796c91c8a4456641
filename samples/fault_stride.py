"""Nothing fails, and the result is laid out wrongly: every stride is twice what eager gives."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_stride")
with torch.no_grad():
    wanted, found = model(make_inputs()), compiled(make_inputs())
    print("eager:", wanted.stride(), "compiled:", found.stride())
