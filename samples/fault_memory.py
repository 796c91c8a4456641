"""The compiler takes more and more memory at the tanh, and raises MemoryError at 512 MiB."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_memory", options={"limit_mib": 512})
with torch.no_grad():
    print(compiled(make_inputs()))
