"""What is read of autograd's graph, and written behind its back."""

import pytest
import torch

from minifier.torch_side import torch_private as private

pytestmark = pytest.mark.timeout(60)


def test_the_nodes_that_a_backward_pass_comes_through():
    x = torch.ones(2, requires_grad=True)
    used, unused = x.sin(), x.cos()
    loss = (used * 2).sum()
    found = list(private.nodes_below([loss, torch.ones(1)], 100))
    assert (
        private.node_of(used) in found and private.node_of(unused) not in found and len(set(found)) == len(found) == 4
    )
    assert private.node_of(x) is None and private.node_of(3) is None and len(list(private.nodes_below([loss], 2))) == 2
    edge = torch.autograd.graph.get_gradient_edge(loss)
    assert list(private.nodes_below([edge], 100)) == found


def test_a_change_that_autograd_does_not_see():
    x = torch.ones(2, requires_grad=True)
    w = torch.ones(2)
    y = (x * w).sum()
    with torch.inference_mode():
        counts_nothing = torch.ones(2)
    with private.versions_kept([w, counts_nothing]):
        w.mul_(3)
        with torch.inference_mode():
            counts_nothing.mul_(3)
    y.backward()  # autograd would complain
    assert w._version == 0 and x.grad.tolist() == [3.0, 3.0]


def test_a_value_as_the_function_inside_a_transform_sees_it():
    seen = []

    def look(row):
        with private.outside_transforms(row) as plain:
            seen.append(plain.tolist())
        return row * 2

    x = torch.arange(6.0).reshape(2, 3)
    torch.vmap(look)(x)
    torch.vmap(look, in_dims=1)(x)
    torch.vmap(torch.vmap(look))(x)
    torch.vmap(torch.func.grad(lambda row: look(row.sin()).sum()))(torch.zeros(2, 3))
    assert seen == [[0.0, 1.0, 2.0], [0.0, 3.0], 0.0, [0.0, 0.0, 0.0]]
    for value in (x, "no tensor", 3):
        with private.outside_transforms(value) as plain:
            assert plain is value


def test_transforms_that_were_left_open_are_ended():
    def begun():
        torch._C._functorch._vmap_increment_nesting(2, "error")
        torch._C._functorch._grad_increment_nesting()
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"), private.transforms_ended():
        begun()
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch.randn(3).shape == (3,)
    with private.transforms_ended():
        assert torch.vmap(torch.sin)(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_forward_mode_and_hooks_are_as_before():
    def begun():
        torch._C._functorch._jvp_increment_nesting()
        torch._C._set_fwd_grad_enabled(False)
        torch._C._enter_dual_level()
        torch._C._autograd._saved_tensors_hooks_disable("not in here")
        raise ValueError("in the middle")

    for _ in range(2):  # a level that is left open cannot be opened again
        with pytest.raises(ValueError, match="in the middle"), private.transforms_ended():
            begun()
    assert torch._C._is_fwd_grad_enabled()
    assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None
    with torch.autograd.forward_ad.dual_level():
        with private.transforms_ended():
            pass
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert torch.autograd.forward_ad.unpack_dual(dual * 3).tangent.tolist() == [3.0, 3.0]


def test_zeros_of_a_vanishing_derivative_take_no_memory():
    zeros = private.zeros_without_memory([2, 3], torch.float64, "cpu")
    assert zeros._is_zerotensor() and zeros.shape == (2, 3) and zeros.dtype is torch.float64
