"""Differences that eager's own variation excuses: never called equal, and wrong with `strict`."""

import pytest
import torch
from compare_captures import captures

from minifier.data.failure import Aspect, Tolerance
from minifier.torch_side.torch_private.unsettled import Unsettled

STRICT = Tolerance(strict=True)


def sharply(x):
    return torch.atan2(torch.sin(x * 3) - torch.sin(x * 3.0000002), torch.full_like(x, -1.0))


X = torch.linspace(0, 10, 41)


def test_an_excused_difference_has_its_numbers():
    (captured,) = captures(sharply, X)
    compared = captured.compare(lambda x: (sharply(x.double()).float(),))
    assert compared.differences == ()
    (excused,) = compared.excused
    assert excused.error < 1e-6 and excused.eager_error > 6 < excused.noise and excused.where == "output 0"
    strict = captured.compare(lambda x: (sharply(x.double()).float(),), STRICT)
    assert [difference.aspect for difference in strict.differences] == [Aspect.VALUES] and strict.excused == ()
    assert captured.compare(captured.build(), STRICT).differences == ()


def test_the_result_that_comes_closest_to_its_limit_has_its_numbers():
    def several(x):
        return (x.exp() * x.sin()).cos(), x * 2, x.round().long()

    (captured,) = captures(several, X / 10)
    compared = captured.compare(lambda x: (several(x.double())[0].float(), *several(x)[1:]))
    assert compared.furthest.where == "output 0" and 0 < compared.furthest.error < compared.furthest.limit
    assert captured.compare(captured.build()).furthest is None


def test_the_order_of_equal_elements():
    (captured,) = captures(lambda x: torch.topk(x.round(), 5).indices, X)
    compared = captured.compare(lambda x: (torch.topk(x.round().flip(0), 5).indices.neg() + 40,))
    assert compared.differences == ()
    assert [excused.where for excused in compared.excused] == ["output 0"]


@pytest.mark.parametrize("accumulate", [False, True])
def test_which_of_two_writes_to_one_element_stays(accumulate):
    def written(x):
        return torch.zeros(3).index_put([torch.tensor([1, 1, 0])], x[:3] + 1, accumulate)

    (captured,) = captures(written, X)
    compared = captured.compare(lambda x: (torch.stack((x[2] + 1, x[0] + 1, x[0] * 0)),))
    assert bool(compared.differences) is accumulate
    assert [excused.where for excused in compared.excused] == ([] if accumulate else ["output 0"])


def overflows(x):
    return (x * 1e30) * 1e30 / 1e30


def test_an_overflow_that_the_compiled_result_avoids():
    (captured,) = captures(overflows, torch.ones(4))
    compared = captured.compare(lambda x: (x * 1e30,))
    assert compared.differences == ()
    assert [excused.where for excused in compared.excused] == ["output 0"]
    assert captured.compare(lambda x: (x * 1e30,), STRICT).differences


@pytest.mark.parametrize("filled", [False, True], ids=["as it is", "NaN in eager"])
def test_rounding_and_unwritten_memory_need_no_excuse(filled):
    (captured,) = captures(lambda x: (torch.cumsum(x, 0), torch.empty(3)), X)
    torch.use_deterministic_algorithms(filled)  # fills new memory with NaN
    try:
        right = captured.compare(lambda x: (torch.cumsum(x.double(), 0).float(), torch.ones(3)))
    finally:
        torch.use_deterministic_algorithms(False)
    assert (right.differences, right.excused) == ((), ())


def test_what_torch_leaves_open_comes_out_otherwise_when_eager_runs_again():
    usual = torch.topk(torch.ones(5), 2).indices
    with Unsettled():
        assert torch.empty(3).isnan().all() and torch.empty(2, dtype=torch.int64).tolist() == [1, 1]
        assert (X + 0).tolist()[:1] == [0.0] and torch.zeros(2).tolist() == [0, 0]
        assert (torch.topk(torch.ones(5), 2).indices + usual).tolist() == [4, 4]
        assert torch.tensor([1.0, 3.0, 1.0]).sort().indices.tolist() == [2, 0, 1]
        assert torch.tensor([[3.0, 1.0, 2.0]]).median(1).indices.tolist() == [2]
        noisy = torch.ones(9) * 0.3
    assert ((noisy / 0.3 - 1).abs() / torch.finfo(torch.float32).eps).round().unique().tolist() == [1]


def test_the_gradient_of_a_bias_moves_by_what_is_summed_up():
    layer = torch.nn.Conv2d(1, 1, 1)
    above = torch.tensor([1000.1, -1000.1]).repeat(512).reshape(1, 1, 32, 32)
    above[..., 0, 0] += 0.3  # the sum
    with Unsettled():
        layer(torch.rand(1, 1, 32, 32)).backward(above)
    eps = torch.finfo(torch.float32).eps
    assert 0.05 < abs(float(layer.bias.grad) - 0.3) / (eps * float(above.abs().sum())) < 0.3


# Ops that compute something else under a dispatch mode, whose noise must excuse nothing.

A = torch.randn(3, 4, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def inverted(x):
    return torch.linalg.pinv(x) @ x


def drops_and_inverts(x):
    return torch.nn.functional.dropout(x.real, 0.5), torch.linalg.pinv(x) @ x


def under_a_mode(call):
    """The call under a mode that changes nothing, as AOTAutograd makes the first one."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def run(*inputs):
        with Nothing():
            return call(*inputs)

    return run


def test_what_only_a_mode_changes_is_wrong():
    (captured,) = captures(inverted, A)
    (difference,) = captured.compare(under_a_mode(captured.build())).differences
    assert difference.error > 1 and difference.noise < 1e-3


def test_a_graph_that_draws():
    (captured,) = captures(drops_and_inverts, A)
    (difference,) = captured.compare(under_a_mode(captured.build())).differences
    assert difference.where == "output 1"
    assert captured.compare(captured.build()).differences == ()


def test_rounding_is_excused_where_a_mode_changes_the_result():
    (captured,) = captures(inverted, A)
    module = captured.build()
    assert captured.compare(lambda x: [y * (1 + 1e-7) for y in module(x)]).differences == ()
    assert captured.compare(lambda x: [y * (1 + 1e-3) for y in module(x)]).differences


def unwritten(x):
    memory = torch.empty(8, 8)
    return torch.linalg.pinv(x).abs().mean() + memory.mean()


def test_unwritten_memory_is_no_difference_there():
    (captured,) = captures(unwritten, A)
    assert captured.compare(lambda x: [torch.tensor(12.5)]).differences == ()
