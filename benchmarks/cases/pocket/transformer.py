"""A decoder-only transformer put together from torch.nn: 315 ops with its twelve layers."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5
        return self.out(torch.matmul(functional.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, activation: nn.Module) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.scale * self.narrow(self.activation(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    """Positions come from one cumsum at the start; the logits go through one tanh at the end; the layer in
    the middle has a mish in place of its gelu."""

    def __init__(self, layers: int = 12, width: int = 64, heads: int = 4, tokens: int = 100) -> None:
        super().__init__()
        self.width = width
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Embedding(64, width)
        self.first_norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            Layer(width, heads, nn.Mish() if i == layers // 2 else nn.GELU()) for i in range(layers)
        )
        self.bridge, self.head = nn.Linear(width, width), nn.Linear(width, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.cumsum(torch.ones_like(tokens), dim=1)
        x = self.first_norm(self.tokens(tokens) * self.width**0.5 + self.positions(positions))
        for layer in self.layers:
            x = layer(x)
        x = x + functional.gelu(self.bridge(x))
        return 30 * torch.tanh(self.head(self.last_norm(x)) / 30)
