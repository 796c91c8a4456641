"""`first_of` tries three backends: one is not installed, one refuses the graph, one works; it says so."""

import minifier_backends.faulty
import minifier_backends.speedy
import torch
from minifier_backends.composable import first_of

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
backend = first_of("not_installed", "faulty_raise", "speedy")
print(backend)
compiled = torch.compile(SmallModel().eval(), backend=backend)
with torch.no_grad():
    print(compiled(make_inputs()).shape)
