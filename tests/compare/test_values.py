"""Small errors are found, and rounding is not one."""

import pytest
import torch
import torch.nn.functional as F
from compare_captures import captures
from compare_models import Transformer
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.data.failure import Aspect
from minifier.torch_side.compare.judge_tensor import Sample, judge_exact, judge_floats


def with_op(captured, target, change):
    """The graph with `change` applied to the result of its first op of this target."""
    module = captured.build()
    node = next(n for n in module.graph.nodes if n.target in (target, getattr(target, "__name__", "")))
    with module.graph.inserting_after(node):
        made = module.graph.call_function(change, (node,))
    node.replace_all_uses_with(made)
    made.args = (node,)
    module.recompile()
    return module.forward


def two_per_cent(x):
    return x * 1.02


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(0)
    with torch.no_grad():
        return captures(Transformer().eval(), torch.randint(0, 128, (2, 16)))[0]


@pytest.mark.usefixtures("laborious")
@torch.no_grad()
def test_two_per_cent_in_one_sigmoid_of_twelve_layers(transformer):
    (found,) = transformer.compare(with_op(transformer, torch.sigmoid, two_per_cent)).differences
    assert found.aspect is Aspect.VALUES
    assert found.error > 1000 * max(found.eager_error, found.noise)


@torch.no_grad()
def test_smaller_errors_are_still_found(transformer):
    assert transformer.compare(with_op(transformer, torch.sigmoid, lambda x: x * 1.0002)).differences


@torch.no_grad()
def test_another_way_of_rounding_is_no_error(transformer):
    def other_order(x):
        return (x.double() * 1.0000001).float()

    compared = transformer.compare(with_op(transformer, torch.sigmoid, other_order))
    assert compared.differences == () and transformer.eager_runs == 2


def chain(x, w):
    return torch.sigmoid(F.layer_norm(x @ w, (32,))) @ w, torch.sigmoid(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_types(dtype):
    torch.manual_seed(0)
    captured = captures(chain, torch.randn(16, 32).to(dtype), torch.randn(32, 32).to(dtype))[0]
    assert captured.compare(with_op(captured, torch.sigmoid, lambda x: x * 1.1)).differences

    def in_single(x, w):  # what a compiler that fuses does
        y = torch.sigmoid(F.layer_norm((x @ w).float(), (32,))).to(x.dtype) @ w
        return y, torch.sigmoid(x.float()).to(x.dtype)

    assert captured.compare(in_single).differences == ()


def through_bfloat16(x, w):
    return (x.to(torch.bfloat16) @ w.to(torch.bfloat16)).float().softmax(-1)


def test_types_that_the_graph_names_are_widened_too():
    captured = captures(through_bfloat16, torch.randn(8, 8), torch.randn(8, 8))[0]
    assert captured.compare(lambda x, w: ((x @ w).softmax(-1),)).differences == ()  # better than eager
    assert captured.eager_runs == 4  # two for the number by which eager itself varies


def test_a_decision_that_rounding_makes():
    """round() of values a hair below a half: eager itself jumps when its inputs move."""
    moved = torch.rand(64, generator=torch.Generator().manual_seed(0))
    x = torch.arange(64) + 0.5 - moved * 1e-6 * torch.arange(64)
    captured = captures(lambda x: ((x * 1.1) / 1.1).round(), x)[0]
    assert captured.compare(lambda x: (x.round(),)).differences == ()
    assert captured.compare(lambda x: (((x * 1.1) / 1.1).round() + 1,)).differences


def test_a_size_that_rounding_decides():
    x = torch.cat([torch.full((9,), 0.1) * torch.arange(9), torch.rand(20) + 2])
    captured = captures(lambda x: x[x / 0.1 >= torch.arange(29)], x)
    compared = captured[0].compare(captured[0].build())
    assert compared.differences == ()


@given(
    st.integers(1, 60),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.complex64]),
    st.integers(0, 1000),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=30)
def test_correct_rounding_is_never_wrong(count, dtype, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    reference = torch.randn(count, generator=generator, dtype=wide) * scale
    eager = reference.to(dtype)
    step = torch.randint(-1, 2, (count,), generator=generator) * torch.finfo(dtype).eps / 2
    neighbour = (reference * (1 + step)).to(dtype)
    assert not judge_floats(neighbour, eager, reference).wrong
    assert not judge_floats(eager, eager, None, [Sample(neighbour, 1.0)]).wrong


@given(st.integers(64, 200), st.integers(0, 1000), st.floats(1e-4, 0.5))
@settings(max_examples=20)
def test_an_error_in_every_element_is_always_seen(count, seed, size):
    reference = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    eager = reference.float()
    moved = Sample((reference * (1 + 1e-7)).float(), 1.0)
    assert judge_floats((reference * (1 + size)).float(), eager, reference, [moved]).wrong


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(0, 100))
def test_integers_are_exact(values, at):
    eager = torch.tensor(values)
    compiled = eager.clone()
    compiled[at % len(values)] += 1
    assert judge_exact(compiled, eager, None).wrong and not judge_exact(eager, eager, None).wrong
    assert not judge_exact(compiled, eager, None, [Sample(compiled, 1.0)]).wrong


# A sum rounds by a part of what it adds, however little is left of it.


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
