"""Each aspect of a result, parted from eager by a compiled function that is eager but for one thing."""

import pytest
import torch
import torch.nn.functional as F
from compare_captures import captures

from minifier.data.failure import Aspect, Stage, Tolerance


def model(x, w):
    x.add_(1)
    y = torch.tanh(x @ w)
    return y, (y > 0).sum(0), y.t()


@pytest.fixture(scope="module")
def captured():
    torch.manual_seed(0)
    return captures(model, torch.randn(6, 4), torch.randn(4, 5))[0]


def changed(captured, change):
    """Eager, with its outputs (a list) and inputs changed afterwards."""

    def compiled(*inputs):
        outputs = list(captured.build()(*inputs))
        return change(outputs, inputs) or outputs

    return compiled


def replaced(i, function):
    def change(outputs, inputs):
        outputs[i] = function(outputs[i])

    return change


def poked(i, value):
    def change(outputs, inputs):
        outputs[i] = outputs[i].clone()
        outputs[i][0, 0] = value

    return change


def undone(outputs, inputs):
    inputs[0].sub_(1)


def touched(outputs, inputs):
    inputs[1].mul_(1.5)


def resized(outputs, inputs):
    inputs[0].resize_(2, 2)


CHANGES = {
    "a factor": (replaced(0, lambda y: y * 1.001), {(Aspect.VALUES, "output 0"), (Aspect.ALIASING, None)}),
    "a count": (replaced(1, lambda n: n + 1), {(Aspect.VALUES, "output 1")}),
    "a NaN": (poked(0, float("nan")), {(Aspect.NON_FINITE, "output 0"), (Aspect.ALIASING, None)}),
    "an infinity": (poked(0, float("inf")), {(Aspect.NON_FINITE, "output 0"), (Aspect.ALIASING, None)}),
    "a shape": (replaced(1, lambda n: n[:3]), {(Aspect.SHAPE, "output 1")}),
    "a type": (replaced(1, lambda n: n.int()), {(Aspect.DTYPE, "output 1")}),
    "a stride": (replaced(2, lambda y: y.contiguous()), {(Aspect.STRIDE, "output 2"), (Aspect.ALIASING, None)}),
    "a device": (replaced(1, lambda n: n.to("meta")), {(Aspect.DEVICE, "output 1")}),
    "an output too few": (lambda outputs, inputs: outputs[:2], {(Aspect.STRUCTURE, "the outputs")}),
    "a number": (replaced(1, lambda n: 7), {(Aspect.STRUCTURE, "output 1")}),
    "a missed in-place change": (undone, {(Aspect.MUTATION, "input l_x_ after the call")}),
    "an extra in-place change": (touched, {(Aspect.MUTATION, "input l_w_ after the call")}),
    "a resized input": (resized, {(Aspect.MUTATION, "input l_x_ after the call")}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_is_found_and_nothing_else(captured, name):
    change, wanted = CHANGES[name]
    found = captured.compare(changed(captured, change)).differences
    sure = {pair for pair in wanted if pair[1]}
    assert sure <= {(d.aspect, d.where) for d in found}
    assert {d.aspect for d in found} <= {aspect for aspect, _ in wanted}


def test_nothing_is_changed(captured):
    compared = captured.compare(changed(captured, lambda outputs, inputs: None))
    assert compared.differences == ()
    assert captured.eager_runs == 1


@pytest.mark.parametrize("aspect", [Aspect.VALUES, Aspect.ALIASING])
def test_an_ignored_aspect_does_not_count(captured, aspect):
    change, _wanted = CHANGES["a factor"]
    found = captured.compare(changed(captured, change), Tolerance(ignored=(aspect,))).differences
    assert aspect not in {d.aspect for d in found}


def test_a_missed_alias_of_an_input():
    captured = captures(lambda x: (x[1:], x + 1), torch.randn(4, 3))[0]
    compiled = changed(captured, replaced(0, torch.clone))
    (found,) = captured.compare(compiled).differences
    assert (found.aspect, found.where) == (Aspect.ALIASING, "output 0")


def test_one_storage_for_several_inputs():
    base = torch.randn(8)
    captured = captures(lambda x, y: (x.add_(1), y * 2)[1], base[:5], base[3:])[0]
    assert captured.compare(captured.build()).differences == ()

    def on_a_copy(x, y):
        y = y.clone()
        x.add_(1)
        return (y * 2,)

    (found,) = captured.compare(on_a_copy).differences
    assert found.aspect is Aspect.VALUES


def gradients(x, w):
    return torch.tanh(x @ w).sum(), x * 2


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    return captures(gradients, torch.randn(4, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True))[0]


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.01


def test_a_wrong_gradient(trained):
    def compiled(x, w):
        return gradients(x, Twice.apply(w))

    (found,) = trained.compare(compiled, backward=True).differences
    assert (found.aspect, found.where) == (Aspect.GRADIENT, "gradient of l_w_")
    assert found.error > 1e4 * found.eager_error
    assert trained.compare(compiled).differences == ()


def test_a_missing_gradient_counts_as_zeros(trained):
    (found,) = trained.compare(lambda x, w: gradients(x, w.detach()), backward=True).differences
    assert found.where == "gradient of l_w_"
    zero = captures(lambda x, y: x * 2 + y * 0, torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True))
    assert zero[0].compare(lambda x, y: (x * 2,), backward=True).differences == ()


def test_an_output_without_grad(trained):
    found = trained.compare(lambda x, w: (gradients(x, w)[0], x.detach() * 2), backward=True).differences
    assert found[0].aspect is Aspect.AUTOGRAD and found[0].where == "output 1"


def test_an_output_that_is_a_leaf(trained):
    def compiled(x, w):
        product = gradients(x, w)
        return product[0], product[1].detach().requires_grad_()

    (found,) = trained.compare(compiled).differences
    assert (found.aspect, found.where, found.is_of_backward) == (Aspect.AUTOGRAD, "output 1", False)


def refuses(p, y):
    return F.binary_cross_entropy(p, y)


def test_eager_raises_and_the_compiled_does_not():
    captured = captures(refuses, torch.rand(4), torch.rand(4))[0]
    captured.values[0] += 2
    compared = captured.compare(lambda p, y: (p.sum(),))
    (found,) = compared.differences
    assert found.aspect is Aspect.NO_EXCEPTION
    assert isinstance(compared.eager_error, RuntimeError) and compared.compiled_error is None


def fails(*inputs):
    raise KeyError("lost")


def test_both_raise():
    captured = captures(refuses, torch.rand(4), torch.rand(4))[0]
    captured.values[0] += 2
    compared = captured.compare(fails)
    assert compared.differences == () and compared.compiled_error is None and compared.eager_error is not None


def test_only_the_compiled_raises(captured, trained):
    compared = captured.compare(fails)
    assert isinstance(compared.compiled_error, KeyError) and compared.compiled_stage is Stage.RUN
    assert compared.differences == ()

    class Fails(Twice):
        @staticmethod
        def backward(ctx, grad):
            raise KeyError("lost")

    compared = trained.compare(lambda x, w: gradients(Fails.apply(x), w), backward=True)
    assert isinstance(compared.compiled_error, KeyError) and compared.compiled_stage is Stage.BACKWARD_RUN


def test_the_random_state_of_the_process_stays(captured):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    captured.compare(lambda *inputs: (torch.rand(3), captured.build()(*inputs))[1])
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_default_dtype() is torch.float32


def test_inputs_of_an_inference_mode():
    captured = captures(model, torch.randn(6, 4), torch.randn(4, 5))[0]
    with torch.inference_mode():
        assert captured.compare(captured.build()).differences == ()
        assert captured.compare(lambda x, w: tuple(o * 1.5 for o in captured.build()(x, w))).differences
