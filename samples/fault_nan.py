"""Nothing fails, and the result is wrong: the first element of the compiled tanh is NaN."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_nan")
with torch.no_grad():
    wanted, found = model(make_inputs()), compiled(make_inputs())
    print("NaNs in eager:", wanted.isnan().sum().item(), "in compiled:", found.isnan().sum().item())
