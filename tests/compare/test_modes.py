"""Ops that compute something else under a dispatch mode, whose noise must excuse nothing."""

import torch
from compare_captures import captures

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
