"""A sum rounds by a part of what it adds, however little is left of it."""

import pytest
import torch
from compare_captures import captures


def by_lanes(x):
    """As vectorised code adds: one number after the other in each of eight lanes."""
    lanes = torch.zeros(8)
    for chunk in x.view(-1, 8):
        lanes = lanes + chunk
    return lanes.sum()


def cancels(x):
    return x.sum() - x.flip(0).sum()


def deviates(x):
    return (x - x.mean()).sum()


def accumulates(x):
    return x.cumsum(0)[-1] - x.sum()


LANES = {
    cancels: lambda x: (by_lanes(x) - by_lanes(x.flip(0)),),
    deviates: lambda x: (by_lanes(x - by_lanes(x) / x.numel()),),
    accumulates: lambda x: (x.cumsum(0)[-1] - by_lanes(x),),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("function", LANES)
def test_what_is_left_of_two_sums(function, seed):
    x = torch.randn(4096, generator=torch.Generator().manual_seed(seed)) * 1e4
    captured = captures(function, x)[0]
    assert captured.compare(LANES[function]).differences == ()

    def forgets_one(x):
        return (LANES[function](x)[0] + 30,)

    assert captured.compare(forgets_one).differences


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_products_of_matrices_are_still_compared_sharply(dtype):
    torch.manual_seed(0)
    a, b = torch.randn(32, 512).to(dtype), torch.randn(512, 32).to(dtype)
    captured = captures(lambda a, b: a @ b - (a * 2) @ (b / 2), a, b)[0]
    assert captured.compare(lambda a, b: ((a.double() @ b.double()).to(dtype) - a @ b,)).differences == ()
    least = 2e-5 if dtype is torch.float32 else 0.1
    captured = captures(torch.matmul, a, b)[0]
    assert captured.compare(lambda a, b: ((a @ b) * (1 + least),)).differences
