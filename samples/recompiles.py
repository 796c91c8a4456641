"""Works with the first size; the recompilation for another size makes it symbolic, and raises.

A call with the same size passes the guards and reuses what was compiled. A new batch size fails a guard,
and Dynamo compiles again with that size as a symbol, which the compiler cannot have at the tanh.
"""

import minifier_backends.faulty
import torch

from small_model import SmallModel, make_inputs

torch.manual_seed(0)
model = SmallModel().eval()
compiled = torch.compile(model, backend="faulty_dynamic")
with torch.no_grad():
    for batch in (2, 2, 3):
        print("batch", batch, compiled(make_inputs()[:1].expand(batch, -1, -1)).shape)
