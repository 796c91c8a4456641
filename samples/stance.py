"""Under the stance "force_eager" the model works; back under the default stance, compiling it raises."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_raise")
with torch.no_grad():
    with torch.compiler.set_stance("force_eager"):
        print("eager:", compiled(make_inputs()).shape)
    print("compiled:", compiled(make_inputs()).shape)
