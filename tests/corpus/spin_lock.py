r"""A hang on a GPU at the second call: a backend's own kernel waits for a turn that never comes, with over four rows.

reach: exit 0, 1 op
shows: \.sum\(1\)
hides: exp\(|masked_fill
run: --timeout 10
needs: cuda
"""

import torch
import triton
import triton.language as tl
from torch import fx


@triton.jit
def take_turns_kernel(x, out, turn, width, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * width + column, mask=column < width, other=0.0))
    mine = row
    if row > 4:
        mine = rows + 2  # a turn that nobody gives
    looks = tl.program_id(1).to(tl.int64)
    while (tl.atomic_add(turn, 0) != mine) & (looks < 5000000000):
        looks += 1
    tl.store(out + row, total)
    tl.atomic_add(turn, 1)


def sums_in_turn(x):
    out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    turn = torch.zeros(1, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    take_turns_kernel[(x.shape[0],)](x.contiguous(), out, turn, x.shape[1], x.shape[0], BLOCK=block)
    return out


class Turns(fx.Interpreter):
    def call_method(self, target, args, kwargs):
        own = target == "sum" and args[0].is_cuda and args[0].dim() == 2 and args[1:] == (1,)
        return sums_in_turn(args[0]) if own else super().call_method(target, args, kwargs)


def in_turn(graph_module, example_inputs):
    return Turns(graph_module).run


@torch.compile(backend=in_turn)
def votes(likings, absent):
    """Each voter's liking of the candidates, as shares of one vote."""
    likings = (likings * 0.5).masked_fill(absent, -100.0)
    weights = (likings - likings.amax(dim=1, keepdim=True)).exp()
    return weights / weights.sum(1).unsqueeze(1)


torch.manual_seed(0)
for voters in (3, 10):
    likings = torch.randn(voters, 24, device="cuda")
    print(voters, "voters", votes(likings, likings < -1).sum().item())
