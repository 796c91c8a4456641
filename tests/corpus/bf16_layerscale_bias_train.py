r"""The C++ that inductor writes for a backward pass in bfloat16 does not compile: a learned shift behind a linear.

reach: exit 0, 3 ops
shows: bfloat16.*(CppCompileError|C\+\+)
"""

import torch
from torch import nn
from torch.nn import functional as F


class ShiftedBlock(nn.Module):
    """A transformer block that adds a learned shift to what its feed-forward part gives."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.after = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        parts = self.parts(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.after(x)))) + self.shift


class Chess(nn.Module):
    """Predicts the next move of a game from the moves so far."""

    def __init__(self, moves=96, width=64, depth=2):
        super().__init__()
        self.embed, self.place = nn.Embedding(moves, width), nn.Embedding(32, width)
        self.blocks = nn.Sequential(*[ShiftedBlock(width, 4) for _ in range(depth)])
        self.norm, self.next = nn.LayerNorm(width), nn.Linear(width, moves, bias=False)

    def forward(self, game, target):
        x = self.blocks(self.embed(game) + self.place(torch.arange(game.shape[1])))
        return F.cross_entropy(self.next(self.norm(x)).flatten(0, 1).float(), target.flatten())


torch.manual_seed(0)
chess = Chess().to(torch.bfloat16)
games = torch.randint(0, 96, (4, 33))
loss = torch.compile(chess)(games[:, :-1], games[:, 1:])
loss.backward()
print(loss.item(), chess.next.weight.grad.norm().item())
