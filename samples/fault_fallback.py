"""Nothing fails and the result is right: the backend could not compile, logged that, and runs eagerly."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_fallback")
with torch.no_grad():
    print("the same:", torch.equal(compiled(make_inputs()), model(make_inputs())))
