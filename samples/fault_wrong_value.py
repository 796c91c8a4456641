"""Nothing fails, and the result is wrong: the compiled tanh is 2 % too large."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_wrong")
with torch.no_grad():
    wanted, found = model(make_inputs()), compiled(make_inputs())
    print("largest difference from eager:", (found - wanted).abs().max().item())
