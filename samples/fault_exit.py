"""The compiler ends the process with exit code 3 at the tanh, and prints nothing."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_exit")
with torch.no_grad():
    print(compiled(make_inputs()))
