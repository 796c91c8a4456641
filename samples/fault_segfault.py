"""The compiler dies by SIGSEGV at the tanh, and takes the process with it: no traceback."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_segfault")
with torch.no_grad():
    print(compiled(make_inputs()))
