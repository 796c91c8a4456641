"""Models of the kinds that tempt a comparison into a false alarm."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Made = Callable[[torch.dtype], tuple[Callable[..., Any], tuple[Any, ...]]]


class Block(nn.Module):
    def __init__(self, width: int, heads: int, act: Callable[..., Any], dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.act, self.dropout = heads, act, dropout
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, -1)
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, time, width)
        x = x + F.dropout(self.out(mixed), self.dropout, self.dropout > 0)
        return x + F.dropout(self.down(self.act(self.up(self.ln2(x)))), self.dropout, self.dropout > 0)


class Transformer(nn.Module):
    """Pre-norm, with one odd activation in the middle."""

    def __init__(self, layers=12, width=64, heads=4, vocab=128, odd=torch.sigmoid, dropout=0.0):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        acts = [odd if i == layers // 2 else F.gelu for i in range(layers)]
        self.blocks = nn.ModuleList(Block(width, heads, act, dropout) for act in acts)
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab)

    def forward(self, tokens):
        x = self.emb(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class Convolutions(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, stride=2)
        self.norm, self.head = nn.BatchNorm2d(channels), nn.Linear(channels, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.silu(self.second(x))
        return self.head(x.mean((2, 3))), x


def tensor(*shape: int, dtype: torch.dtype, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def _transformer(dtype, **options):
    return Transformer(layers=2, width=32, **options).to(dtype), (torch.randint(0, 128, (2, 12)),)


def _convolutions(dtype):
    return Convolutions().to(dtype), (tensor(2, 3, 18, 18, dtype=dtype),)


def _channels_last(dtype):
    model = Convolutions().to(dtype).to(memory_format=torch.channels_last)
    return model.eval(), (tensor(2, 3, 18, 18, dtype=dtype).to(memory_format=torch.channels_last),)


def _function(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Made:
    """Copies of a function, since Dynamo counts how often it compiles one."""
    return lambda dtype: (function, tuple(tensor(*shape, dtype=dtype, grad=True) for shape in shapes))


def softmaxes(x):
    return torch.softmax(x * 20, -1), torch.log_softmax(x, 0), torch.logsumexp(x * 5, 1), x.softmax(-1).sum()


def sums(x):
    return x.cumsum(0), x.cumsum(-1), x.sum(), x.mean(0), x.var(1), x.std(), x.norm(), (x * 1e3).prod(-1).sign()


def cancels(x):
    return (x + 100) - 100, (x - x.mean()).sum(), x.exp() - 1 - x, (x * x).mean() - x.mean() ** 2


def places(x):
    values, where = x.topk(3, -1)
    return values, where, x.argmax(-1), x.argmin(0), x.sort(-1), x.max(1), x.median(1), F.relu(x).topk(9, -1)


def decides(x):
    scores = x @ x.t()
    best = scores.argmax(-1)
    return x[best] * 2, (scores > 0.5).float().sum(0), torch.where(x > x.mean(), x, -x), (x * 3).round(), x.sign()


def drops(x):
    return (
        F.dropout(x, 0.3),
        F.dropout(x.softmax(-1), 0.5).sum(),
        torch.rand_like(x) + x,
        x * torch.bernoulli(x.sigmoid()),
    )


def drops_to_one(x):
    return F.dropout(x * 2, 0.1).mean()


def draws(x):
    return torch.randn(4, 5), torch.randint(0, 10, (3,)), torch.randperm(6), torch.multinomial(x.softmax(-1).float(), 2)


def changes_its_input(x):
    x = x * 1
    x.mul_(2).add_(1)
    y = x[1:]
    y.clamp_(min=0)
    return x, y


def is_changed(x, y):
    x.mul_(y)
    x[0] = 3
    return y * 2


def views(x):
    y = x * 2
    return x[1:], x.t(), y, y[0], y.view(-1), x


def unwritten(x):
    y = torch.empty(5, 3, dtype=x.dtype)
    z = torch.empty_like(x)
    z[0] = x[0]
    return y, z, torch.empty(3, dtype=torch.int64)


def attends(q, k, v):
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return whole, F.scaled_dot_product_attention(q, k, v, attn_mask=mask), F.scaled_dot_product_attention(q, k, v)


def non_finite(x):
    masked = x.masked_fill(x > 0, float("-inf"))
    return masked.softmax(-1), x.log(), 1 / x.relu(), x.sqrt(), masked.cumsum(0), (x * 1e30).exp()


def casts(x):
    half = x.to(torch.bfloat16) @ x.to(torch.bfloat16).t()
    return (
        half.float().softmax(-1),
        x.half().sum(),
        x.double().mean(),
        x.int().float(),
        x.to(torch.float8_e4m3fn).float(),
    )


def special(x):
    y = x.abs() + 0.1
    return (
        torch.erf(x),
        torch.lgamma(y),
        torch.tanh(x),
        torch.atan2(x, y),
        x.pow(3),
        y**0.3,
        torch.sin(x * 100),
        F.gelu(x),
    )


def of_some_size(x):
    return x[x > 0], (x > 0.3).nonzero(), torch.unique((x * 2).round())


def under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.relu(x @ w)
        return F.layer_norm(y @ w, (y.shape[-1],)), y


SHARP = (
    softmaxes, sums, cancels, places, decides, changes_its_input, views, unwritten, non_finite, casts, special,
)  # fmt: skip
LOOSE = (drops, drops_to_one, draws)


def all_of(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """One function that gives the results of all: a single compilation for an inductor that takes its time."""

    def every(x):
        found = []
        for function in functions:
            given = function(x)
            found += given if isinstance(given, tuple) else [given]
        return tuple(found)

    return every


MODELS: dict[str, Made] = {
    "transformer": _transformer,
    "transformer with dropout": lambda dtype: _transformer(dtype, dropout=0.1),
    "convolutions": _convolutions,
    "channels last": _channels_last,
    "autocast": lambda dtype: (under_autocast, (tensor(8, 8, dtype=dtype, grad=True), tensor(8, 8, dtype=dtype))),
    "is changed": lambda dtype: (is_changed, (tensor(6, 4, dtype=dtype), tensor(6, 4, dtype=dtype, grad=False))),
    "attention": _function(attends, *[(1, 2, 6, 16)] * 3),
    **{f.__name__.replace("_", " "): _function(f, (12, 10)) for f in (*SHARP, *LOOSE, of_some_size)},
}


def made(name: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A model and its inputs, the same ones for the same seed."""
    torch.manual_seed(seed)
    model, inputs = MODELS[name](dtype)
    return copy.deepcopy(model), inputs
