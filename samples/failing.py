"""A transformer encoder whose compiler cannot lower one op: torch.compile raises.

Six layers, 160 ops in the graph, and among them a single tanh, in the feed-forward block of the
fourth layer. The backend `faulty_raise` has no lowering for it.
"""

import math

import minifier_backends.faulty
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project_in(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed = scores.softmax(dim=-1) @ v
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, activation):
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm_attention = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)
        self.norm_feed_forward = nn.LayerNorm(width)
        self.activation = activation

    def forward(self, x):
        x = x + self.attention(self.norm_attention(x))
        return x + self.shrink(self.activation(self.expand(self.norm_feed_forward(x))))


class Encoder(nn.Module):
    def __init__(self, *, vocabulary=100, classes=10, width=32, heads=4, layers=6, odd_layer=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        activations = [torch.tanh if i == odd_layer else nn.functional.gelu for i in range(layers)]
        self.layers = nn.ModuleList(EncoderLayer(width, heads, activation) for activation in activations)
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, classes)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.classify(self.norm(x).mean(dim=1))


torch.manual_seed(0)
model = torch.compile(Encoder().eval(), backend="faulty_raise")
with torch.no_grad():
    print(model(torch.randint(0, 100, (2, 16))).argmax(dim=-1))
