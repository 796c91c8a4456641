"""Two errors of nearly the same text: this script shows the one that needs a layer_norm beside the tanh.

Take the layer_norm out and another FusionError appears, which is another bug.
"""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_two_errors")
with torch.no_grad():
    print(compiled(make_inputs()))
