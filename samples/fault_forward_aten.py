"""The compiler is given ATen ops by AOTAutograd, and has no lowering for aten.gelu."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel(steps=(torch.nn.functional.gelu,)).eval()
compiled = torch.compile(model, backend="faulty_raise", options={"op": "gelu", "level": "forward"})
with torch.no_grad():
    print(compiled(make_inputs()))
