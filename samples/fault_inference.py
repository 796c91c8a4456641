"""Works under torch.no_grad(); under torch.inference_mode() the compiled tanh fails."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
compiled = torch.compile(SmallModel().eval(), backend="faulty_inference")
with torch.no_grad():
    print("no_grad", compiled(make_inputs()).shape)
with torch.inference_mode():
    print("inference_mode", compiled(make_inputs()).shape)
