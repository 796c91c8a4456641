r"""RuntimeError on a GPU: CUDA graphs overwrite gradients that are added up over several small batches.

source: https://github.com/pytorch/pytorch/issues/169545
reach: exit 0, 16 statements
shows: reduce-overhead
hides: LayerNorm|GELU
needs: cuda
"""

import torch
from torch import nn

torch.manual_seed(0)
body = [nn.Linear(24, 48), nn.LayerNorm(48), nn.GELU(), nn.Linear(48, 48), nn.Tanh()]
model = nn.Sequential(*body, nn.Linear(48, 4)).cuda()
compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(3):
    optimizer.zero_grad(set_to_none=True)
    losses = []
    for _ in range(3):  # as many small batches as make a large one
        torch.compiler.cudagraph_mark_step_begin()
        samples, kinds = torch.randn(12, 24, device="cuda"), torch.randint(0, 4, (12,), device="cuda")
        loss = nn.functional.cross_entropy(compiled(samples).clone(), kinds) / 3
        loss.backward()
        losses.append(loss.item())
    size = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    print(step, sum(losses), size.item())
