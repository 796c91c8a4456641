"""The compiler aborts (SIGABRT) at the tanh, as a failed native assertion does."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_abort")
with torch.no_grad():
    print(compiled(make_inputs()))
