r"""NotImplementedError on a GPU as flex_attention's backward is compiled: one learned bias is read at two places.

source: https://github.com/pytorch/pytorch/issues/145208
reach: exit 0, 2 ops
shows: flex_attention.*NotImplementedError
hides: linear|layer_norm
needs: cuda
"""

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention


class PlacedAttention(nn.Module):
    """Attention whose scores depend on what each place is worth, as a query and as a key."""

    def __init__(self, width=64, heads=2, places=128):
        super().__init__()
        self.heads, self.parts, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.worth = nn.Parameter(torch.randn(heads, places) * 0.05)

    def forward(self, x):
        parts = self.parts(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        worth = self.worth

        def adjust(score, batch, head, query, key):
            return score + worth[head, query] - worth[head, key]

        mixed = flex_attention(*parts.unbind(0), score_mod=adjust)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Genes(nn.Module):
    """Marks each base of a piece of DNA."""

    def __init__(self, width=64, marks=3):
        super().__init__()
        self.embed, self.norm, self.attend = nn.Embedding(4, width), nn.LayerNorm(width), PlacedAttention(width)
        self.mark = nn.Linear(width, marks)

    def forward(self, bases):
        x = self.embed(bases)
        return self.mark(nn.functional.silu(x + self.attend(self.norm(x))))


torch.manual_seed(0)
genes = Genes().cuda()
compiled, optimizer = torch.compile(genes, dynamic=False), torch.optim.AdamW(genes.parameters())
for _ in range(2):
    bases, marks = torch.randint(0, 4, (2, 128), device="cuda"), torch.randint(0, 3, (256,), device="cuda")
    loss = nn.functional.cross_entropy(compiled(bases).flatten(0, 1), marks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
