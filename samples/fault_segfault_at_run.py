"""The graph compiles; the compiled function dies by SIGSEGV when it reaches the tanh."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_segfault", options={"stage": "run"})
with torch.no_grad():
    print(compiled(make_inputs()))
