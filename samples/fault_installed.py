"""The backend is an installed package's entry point: the script imports nothing for it, and raises."""

import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_installed")
with torch.no_grad():
    print(compiled(make_inputs()))
