"""Nothing fails, and the result is of the wrong dtype: float64 where eager gives float32."""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_dtype")
with torch.no_grad():
    wanted, found = model(make_inputs()), compiled(make_inputs())
    print("eager:", wanted.dtype, "compiled:", found.dtype)
