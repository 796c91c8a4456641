r"""A stale result, which the script asserts: Dynamo does not guard an attribute that hides a registered submodule.

source: https://github.com/pytorch/pytorch/issues/197859
reach: exit 0, 13 statements
shows: __dict__
hides: LayerNorm|chunk
"""

import torch
from torch import nn


class Patched(nn.Module):
    """A linear layer with a correction of low rank."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.parts(x).chunk(3, dim=-1)
        return self.out(nn.functional.scaled_dot_product_attention(query, key, value))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width)
        self.change = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + nn.functional.gelu(self.change(self.second(x)))


class Grader(nn.Module):
    """Grades an essay, given as vectors of its sentences."""

    def __init__(self, width=16, depth=2, grades=5):
        super().__init__()
        self.layers, self.grade = nn.ModuleList(Layer(width) for _ in range(depth)), nn.Linear(width, grades)

    def forward(self, essay):
        for layer in self.layers:
            essay = layer(essay)
        return self.grade(essay.mean(dim=1)).softmax(dim=-1)


class Schools:
    """Keeps a school's corrections, and puts them over the layers they correct, which stay registered."""

    def __init__(self, grader):
        self.grader, self.corrections = grader, {}

    def join(self, school, rank):
        layers = self.grader.layers
        self.corrections[school] = [Patched(layer.attention._modules["out"], rank) for layer in layers]

    def enter(self, school):
        for layer, correction in zip(self.grader.layers, self.corrections[school], strict=True):
            vars(layer.attention)["out"] = correction

    def leave(self):
        for layer in self.grader.layers:
            layer.attention.__dict__.pop("out", None)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    grader = Grader().eval()
    schools = Schools(grader)
    schools.join("north", 3)
    compiled = torch.compile(grader, backend="aot_eager")
    essay = torch.randn(2, 6, 16)
    usual = compiled(essay)
    schools.enter("north")
    corrected = compiled(essay)
    schools.leave()
    print("usual", usual[0].tolist(), "north", corrected[0].tolist())
    assert not usual.equal(corrected), "the corrections of the school had no effect"


if __name__ == "__main__":
    main()
