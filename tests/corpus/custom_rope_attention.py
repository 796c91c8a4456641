r"""AssertionError when the compiled code runs: a custom operator's fake kernel promises another memory layout.

reach: exit 0, 1 op
says: at fault  the fake kernel of music\.turn
run: --explain
shows: custom_op.*torch\.ops\.music\.turn
hides: scaled_dot_product|rms_norm
"""

import torch
from torch import nn


@torch.library.custom_op("music::turn", mutates_args=())
def turn(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    turned = torch.cat([left * cosine - right * sine, left * sine + right * cosine], dim=-1)
    return turned.transpose(1, 2).contiguous().transpose(1, 2)  # what the kernel writes: time before head


@turn.register_fake
def _(x, cosine, sine):
    return torch.empty_like(x)  # what it promises: head before time, as in the input


class TurningAttention(nn.Module):
    """Attention between the notes of a melody, which are turned by their place in it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.RMSNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x, cosine, sine):
        parts = self.parts(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = (part.contiguous() for part in parts)
        query = torch.ops.music.turn(query * 0.5, cosine, sine)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Melody(nn.Module):
    def __init__(self, notes=30, width=16, heads=2, length=10):
        super().__init__()
        self.embed, self.next, self.norm = nn.Embedding(notes, width), nn.Linear(width, notes), nn.RMSNorm(width)
        self.attention = TurningAttention(width, heads)
        angles = torch.outer(torch.arange(length), 0.2 ** torch.arange(width // heads // 2))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, notes):
        return self.next(self.norm(self.attention(self.embed(notes), self.cosine, self.sine)))


torch.manual_seed(0)
melody = Melody().eval()
with torch.no_grad():
    print(torch.compile(melody)(torch.randint(0, 30, (2, 10))).argmax(dim=-1))
