"""Small models of the kinds that tutorials and papers show: nothing about them is wrong.

A row of `MODELS` makes the module and the arguments of a call. Floating-point arguments follow the program's dtype and
memory format; whole numbers (tokens, classes, edges) stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Any, ...]]


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(20, 48), nn.Linear(48, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.dropout(F.relu(self.hidden(x)), 0.2, self.training)).log_softmax(-1)


class ResidualBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + x)


class ResNet(nn.Module):
    def __init__(self, width: int = 8, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 5, stride=2, padding=2), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.blocks(F.max_pool2d(self.stem(image), 2)), 1).flatten(1))


class UNet(nn.Module):
    """One level down and up again, joined by a skip connection."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(2, width), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(2, 2 * width), nn.SiLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        skip = self.down(image)
        return self.out(torch.cat([self.up(self.middle(F.avg_pool2d(skip, 2))), skip], 1))


class Separable(nn.Module):
    """Depthwise and pointwise convolutions with squeeze and excitation, as in networks for phones."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.depth = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.point = nn.Conv2d(width, width, 1)
        self.squeeze, self.excite = nn.Conv2d(width, 2, 1), nn.Conv2d(2, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardswish(self.point(self.depth(x)))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return x + y * gate


class Upscaler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.rearranged = nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2)

    def forward(self, image: Tensor) -> Tensor:
        larger = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
        return (larger + self.rearranged(torch.tanh(self.features(image)))).clamp(-1, 1)


class Volumes(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.stem, self.mix = nn.Conv3d(1, width, 3, padding=1), nn.Conv3d(width, width, 3, padding=1, groups=2)
        self.norm, self.head = nn.InstanceNorm3d(width, affine=True), nn.Linear(width, 2)

    def forward(self, volume: Tensor) -> Tensor:
        return self.head(F.leaky_relu(self.norm(self.mix(F.gelu(self.stem(volume))))).amax((2, 3, 4)))


class Dilated(nn.Module):
    """Gated dilated convolutions over samples of sound."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(3))

    def forward(self, sound: Tensor) -> Tensor:
        for i, layer in enumerate(self.filters):
            signal, gate = layer(F.pad(sound, (2**i, 0))).chunk(2, 1)
            sound = sound + torch.tanh(signal) * torch.sigmoid(gate)
        return sound.sum(-1)


class Coder(nn.Module):
    """A variational autoencoder: draws its code while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.mean, self.variance = nn.Linear(30, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.decode = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 30))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.elu(self.encode(x))
        mean, logarithm = self.mean(hidden), self.variance(hidden)
        code = mean + torch.randn_like(mean) * (logarithm / 2).exp() if self.training else mean
        divergence = (mean**2 + logarithm.exp() - 1 - logarithm).sum(-1) / 2
        return torch.sigmoid(self.decode(code)), divergence


class CausalAttention(nn.Module):
    """Heads with rotary positions, over normalised queries and keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        frequencies = 1 / 100 ** (torch.arange(0, width // heads, 2) / (width // heads))
        self.register_buffer("frequencies", frequencies, persistent=False)

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(x.shape[-2], device=x.device).float(), self.frequencies.float())
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class RootMeanSquare(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Experts(nn.Module):
    """A router sends each token to two of four experts."""

    def __init__(self, width: int, count: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.up, self.down = nn.Parameter(torch.randn(count, width, width) / 8), nn.Parameter(torch.eye(width))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        mixture = torch.zeros_like(self.router(x)).scatter(-1, chosen, weights)
        return torch.einsum("bte,btd,edh->bth", mixture, x, self.up) @ self.down


class Language(nn.Module):
    """A decoder of tokens, with gated layers or with experts."""

    def __init__(self, width: int = 32, layers: int = 2, experts: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(64, width)
        self.attention = nn.ModuleList(CausalAttention(width, 4) for _ in range(layers))
        self.norms = nn.ModuleList(RootMeanSquare(width) for _ in range(2 * layers))
        gated = (
            nn.Sequential(nn.Linear(width, 4 * width), nn.GLU(), nn.Linear(2 * width, width)) for _ in range(layers)
        )
        self.wide = nn.ModuleList((Experts(width) for _ in range(layers)) if experts else gated)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for i, (attention, wide) in enumerate(zip(self.attention, self.wide, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            x = x + wide(self.norms[2 * i + 1](x))
        return x @ self.tokens.weight.t()


class Patches(nn.Module):
    """Images as sequences of patches, with a token for the class."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.kind, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) / 50)
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.kind.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


class Translator(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(50, width), nn.Embedding(60, width)
        self.both = nn.Transformer(width, 4, 1, 1, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, 60)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=self.head.weight.dtype)
        return self.head(self.both(self.source(source) * math.sqrt(32), self.target(target), tgt_mask=mask))


class Tagger(nn.Module):
    def __init__(self, cell: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(40, 12), cell(12, 10, batch_first=True, bidirectional=True)
        self.head = nn.Linear(20, 5)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.cell(self.words(words))[0]).log_softmax(-1)


class UnrolledCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(6, 12), nn.Linear(12, 1)

    def forward(self, series: Tensor) -> Tensor:
        state = (series.new_zeros(len(series), 12), series.new_zeros(len(series), 12))
        for step in series.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


class Recommender(nn.Module):
    """Sparse features, summed in bags, crossed with each other and with dense features."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(30, 8, mode="sum") for _ in range(3))
        self.dense, self.head = nn.Linear(5, 8), nn.Linear(8 + 6, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        features = torch.stack([F.relu(self.dense(dense)), *(bag(sparse) for bag in self.bags)], 1)
        rows, columns = torch.triu_indices(4, 4, 1)
        crossed = (features @ features.transpose(1, 2))[:, rows, columns]
        return torch.sigmoid(self.head(torch.cat([features[:, 0], crossed], 1)))


class Neighbours(nn.Module):
    """Messages along the edges of a graph, added up at their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        start, end = edges
        messages = F.relu(self.message(torch.cat([nodes[start], nodes[end]], -1)))
        received = torch.zeros_like(nodes).index_add(0, end, messages)
        degree = torch.bincount(end, minlength=len(nodes)).clamp(min=1).to(nodes.dtype)
        return self.update(torch.cat([nodes, received / degree[:, None]], -1))


class Coupling(nn.Module):
    """Two coupling layers of a normalising flow, with the logarithm of their Jacobian's determinant."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 6)) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = x.new_zeros(len(x))
        for net in self.nets:
            kept, moved = x.chunk(2, -1)
            scale, shift = net(kept).chunk(2, -1)
            x = torch.cat([moved * scale.tanh().exp() + shift, kept], -1)
            total = total + scale.tanh().sum(-1)
        return x, total


class Waves(nn.Module):
    """A field of sines over positions, as networks for scenes and for equations have it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 1)])

    def forward(self, position: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            position = torch.sin(5 * layer(position))
        return self.layers[-1](position)


class Contrast(nn.Module):
    """Two views of a batch, and the loss that draws equal pairs together."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        a, b = (F.normalize(self.project(view), dim=-1) for view in (one, other))
        return F.cross_entropy((a @ b.t()).float() / 0.1, torch.arange(len(a)))


class Boxes(nn.Module):
    """Scores and boxes of a detector, the overlap of all pairs, and the best boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.corners = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        corner, size = self.corners(features).sigmoid().split(2, -1)
        low, high = corner, corner + size
        shared = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0).prod(-1)
        area = size.prod(-1)
        scores, classes = self.scores(features).softmax(-1).max(-1)
        best = scores.argsort(descending=True, stable=True)[:5]
        return shared / (area[:, None] + area - shared + 1e-6), scores[best], classes[best]


class Spectrum(nn.Module):
    """Sound as the logarithm of a spectrum, filtered and pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.filters = nn.Linear(17, 6)

    def forward(self, sound: Tensor) -> Tensor:
        frames = sound.unfold(-1, 32, 16) * self.window
        return self.filters(torch.log1p(torch.fft.rfft(frames).abs())).amax(1)


class Policy(nn.Module):
    """A policy of two heads with a running mean of what it saw, which it updates in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(7))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.body, self.action, self.value = nn.Linear(7, 16), nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        if self.training:
            self.count += 1
            self.mean.lerp_(seen.detach().mean(0), 0.1)
        x = torch.tanh(self.body(seen - self.mean))
        return self.action(x).log_softmax(-1), self.value(x).squeeze(-1)


def tokens(count: int, *shape: int) -> Tensor:
    return torch.randint(0, count, shape)


MODELS: dict[str, Callable[[], Made]] = {
    "perceptron": lambda: (Perceptron(), (torch.randn(16, 20),)),
    "resnet": lambda: (ResNet(), (torch.randn(2, 3, 32, 32),)),
    "unet": lambda: (UNet(), (torch.randn(2, 1, 16, 16),)),
    "separable": lambda: (Separable(), (torch.randn(2, 8, 9, 9),)),
    "upscaler": lambda: (Upscaler(), (torch.rand(2, 3, 8, 8),)),
    "volumes": lambda: (Volumes(), (torch.randn(2, 1, 5, 6, 7),)),
    "dilated": lambda: (Dilated(), (torch.randn(2, 8, 40),)),
    "coder": lambda: (Coder(), (torch.rand(8, 30),)),
    "language": lambda: (Language(), (tokens(64, 2, 12),)),
    "experts": lambda: (Language(experts=True), (tokens(64, 2, 12),)),
    "patches": lambda: (Patches(), (torch.randn(2, 3, 32, 32),)),
    "translator": lambda: (Translator(), (tokens(50, 2, 9), tokens(60, 2, 7))),
    "lstm": lambda: (Tagger(nn.LSTM), (tokens(40, 3, 8),)),
    "gru": lambda: (Tagger(nn.GRU), (tokens(40, 3, 8),)),
    "unrolled_cell": lambda: (UnrolledCell(), (torch.randn(4, 5, 6),)),
    "recommender": lambda: (Recommender(), (torch.randn(6, 5), tokens(30, 6, 4))),
    "neighbours": lambda: (Neighbours(), (torch.randn(10, 8), tokens(10, 2, 25))),
    "coupling": lambda: (Coupling(), (torch.randn(12, 6),)),
    "waves": lambda: (Waves(), (torch.rand(50, 2),)),
    "contrast": lambda: (Contrast(), (torch.randn(8, 20), torch.randn(8, 20))),
    "boxes": lambda: (Boxes(), (torch.randn(12, 16),)),
    "spectrum": lambda: (Spectrum(), (torch.randn(2, 256),)),
    "policy": lambda: (Policy(), (torch.randn(9, 7),)),
}
