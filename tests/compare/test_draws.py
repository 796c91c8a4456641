"""Random ops: a backend that draws other numbers is right, one that draws eager's is compared sharply."""

import pytest
import torch
import torch.nn.functional as F
from compare_captures import captures
from compare_models import Transformer
from test_values import two_per_cent, with_op

X = torch.randn(40, 10, generator=torch.Generator().manual_seed(1))


def drops(x):
    return F.dropout(torch.sigmoid(x) * 2, 0.3) + torch.rand_like(x)


def to_one(x):
    return F.dropout(torch.sigmoid(x) * 2, 0.3).mean()


def after(count, compiled):
    """The callable with a generator that is `count` numbers further than eager's."""

    def run(*inputs):
        torch.rand(count)
        return compiled(*inputs)

    return run


def test_the_same_numbers_are_compared_sharply():
    captured = captures(drops, X)[0]
    compared = captured.compare(captured.build())
    assert (compared.differences, compared.by_draws) == ((), ()) and captured.eager_runs == 1
    compared = captured.compare(with_op(captured, torch.sigmoid, lambda x: x * 1.001))
    assert len(compared.differences) == 1
    right = captured.compare(with_op(captured, torch.sigmoid, lambda x: (x.double() * (1 + 1e-8)).float()))
    assert right.differences == () and captured.eager_runs <= 3


@pytest.mark.parametrize("count", [1, 7, 38])
@pytest.mark.parametrize("function", [drops, to_one])
def test_other_numbers_are_no_error(function, count):
    captured = captures(function, X)[0]
    compared = captured.compare(after(count, captured.build()))
    assert compared.differences == () and compared.by_draws == ("output 0",)


def scaled(x):
    return F.dropout(x * 2, 0.5) + 1


def instead_of_dropout(captured, change):
    module = captured.build()
    (node,) = module.graph.find_nodes(op="call_function", target=F.dropout)
    node.target = change
    module.recompile()
    return module.forward


def test_no_numbers_at_all_are_no_other_numbers():
    captured = captures(scaled, X)[0]
    assert captured.compare(instead_of_dropout(captured, lambda x, *args, **kwargs: x)).differences
    elsewhere = torch.Generator()

    def drawn_elsewhere(x, *args, **kwargs):
        return x * torch.empty_like(x).bernoulli_(0.5, generator=elsewhere) * 2

    assert captured.compare(instead_of_dropout(captured, drawn_elsewhere)).differences == ()


def test_other_numbers_and_far_too_large():
    captured = captures(drops, X)[0]
    compiled = with_op(captured, torch.sigmoid, lambda x: x * 20)
    assert captured.compare(after(3, compiled)).differences


def test_gradients_through_dropout():
    torch.manual_seed(0)
    model = Transformer(layers=1, width=32, dropout=0.2)
    captured = captures(model, torch.randint(0, 128, (2, 12)))[0]
    assert captured.compare(captured.build(), backward=True).differences == () and captured.eager_runs == 1
    assert captured.compare(with_op(captured, torch.sigmoid, two_per_cent), backward=True).differences
    compared = captured.compare(after(1, captured.build()), backward=True)
    assert compared.differences == () and any(where.startswith("gradient") for where in compared.by_draws)


def forgets_to_scale(x):
    return x * 0.7


def test_the_same_numbers_are_known_by_the_generators_state():
    captured = captures(lambda x: F.dropout(torch.sigmoid(x) * 2, 0.3), X)[0]
    wrong = with_op(captured, F.dropout, forgets_to_scale)
    assert captured.compare(wrong).differences
    assert captured.compare(after(1, wrong)).differences == ()  # all that is known then is the order of magnitude


def test_a_state_that_seeds_may_have_made_says_nothing():
    def draws(x):
        return x.sum() + torch.rand(2).double().sum()  # as many numbers as one seed of 64 bits takes

    captured = captures(draws, torch.zeros(4))[0]

    def own(x):
        seed = torch.randint(-(2**63), 2**63 - 1, (1,))
        return (x.sum() + torch.rand(2, generator=torch.Generator().manual_seed(int(seed) % 1000)).double().sum(),)

    assert captured.compare(own).differences == ()
