"""The backend `speedy` runs a model by TorchScript, and refuses the same model in training."""

import minifier_backends.speedy
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="speedy")
with torch.no_grad():
    print("largest difference from eager:", (compiled(make_inputs()) - model(make_inputs())).abs().max().item())
compiled(make_inputs())
