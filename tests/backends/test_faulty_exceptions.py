"""The faults that raise: where each strikes, where it does not, and what it says."""

import minifier_backends.faulty  # noqa: F401 - registers them
import pytest
import torch
from minifier_backends.errors import (
    DynamicShapeError,
    FusionError,
    KernelError,
    LoweringError,
    PartitionError,
    TransientError,
    WorkspaceError,
)
from torch._dynamo.exc import BackendCompilerFailed


def tanh(x):
    return torch.tanh(x) + 1


def relu(x):
    return torch.relu(x) + 1


def softmax_then_tanh(x):
    return torch.tanh(x.softmax(-1))


def tanh_then_softmax(x):
    return torch.tanh(x).softmax(-1)


def softmax_far_from_tanh(x):
    return torch.tanh(x.softmax(-1) + 1)


def layer_norm_and_tanh(x):
    return torch.nn.functional.layer_norm(x, (4,)).exp().tanh()


def tanh_in_a_branch(x):
    return torch.cond(x.sum() > 0, lambda x: x.tanh(), lambda x: x.relu(), (x,))


def compiled_once(function, backend, *, options=None, dynamic=None, x=None):
    x = torch.ones(2, 4) if x is None else x
    return torch.compile(function, backend=backend, options=options, dynamic=dynamic)(x)


def inner_error(raised) -> Exception:
    return raised.value.inner_exception


RUN = {"stage": "run"}


@pytest.mark.parametrize(
    ("backend", "function", "options", "error"),
    [
        ("faulty_raise", tanh, {}, LoweringError),
        ("faulty_raise", relu, {"op": "relu"}, LoweringError),
        ("faulty_raise", lambda x: x.tanh(), {}, LoweringError),
        ("faulty_raise", tanh_in_a_branch, {}, LoweringError),
        ("faulty_raise", tanh, {"level": "forward"}, LoweringError),
        ("faulty_raise", tanh, RUN, KernelError),
        ("faulty_raise", tanh, {**RUN, "level": "forward"}, KernelError),
        ("faulty_installed", tanh, {}, LoweringError),
        ("faulty_memory", tanh, {"limit_mib": 32}, MemoryError),
        ("faulty_memory", tanh, {**RUN, "limit_mib": 32}, MemoryError),
        ("faulty_pair", softmax_far_from_tanh, {}, PartitionError),
        ("faulty_pair", relu, {**RUN, "op": "relu", "with_op": "add"}, PartitionError),
        ("faulty_adjacent", softmax_then_tanh, {}, FusionError),
        ("faulty_adjacent", tanh_then_softmax, RUN, FusionError),
        ("faulty_two_errors", layer_norm_and_tanh, {}, FusionError),
        ("faulty_two_errors", tanh, RUN, FusionError),
        ("faulty_flaky", tanh, {"probability": 1}, TransientError),
        ("faulty_flaky", tanh, {**RUN, "probability": 1.0}, TransientError),
        ("faulty_on_call", tanh, {"call": 1}, WorkspaceError),
    ],
)
def test_raises_at_its_stage(backend, function, options, error):
    """While the graph is compiled in one of Dynamo's wrappers, as the compiled function runs in none."""
    with pytest.raises((BackendCompilerFailed, error)) as raised:
        compiled_once(function, backend, options=options)
    is_of_run = options.get("stage") == "run" or backend == "faulty_on_call"
    assert type(raised.value if is_of_run else inner_error(raised)) is error


@pytest.mark.parametrize(
    ("backend", "function", "options"),
    [
        *((f"faulty_{name}", relu, None) for name in ("raise", "segfault", "exit", "hang", "memory", "two_errors")),
        ("faulty_raise", relu, {"stage": "run"}),
        ("faulty_raise", lambda x: x.tanh_(), None),
        ("faulty_raise", tanh, {"level": "backward", "op": "tanh"}),
        ("faulty_pair", tanh, None),
        ("faulty_adjacent", softmax_far_from_tanh, None),
        ("faulty_flaky", tanh, {"probability": 0}),
        ("faulty_on_call", tanh, None),
        ("faulty_dynamic", tanh, None),
        ("faulty_backward", tanh, None),
    ],
)
def test_leaves_a_graph_without_its_trigger_alone(backend, function, options):
    x = torch.linspace(-1, 1, 8).view(2, 4)
    expected = function(x.clone())
    torch.testing.assert_close(compiled_once(function, backend, options=options, x=x), expected)


def test_call_counts_calls_of_the_graph_and_not_ops():
    compiled = torch.compile(lambda x: x.tanh().tanh().tanh(), backend="faulty_on_call", options={"call": 3})
    x = torch.ones(3)
    compiled(x)
    compiled(x)
    with pytest.raises(WorkspaceError):
        compiled(x)
    torch.testing.assert_close(compiled(x), x.tanh().tanh().tanh())


def test_flaky_is_drawn_at_each_call_whatever_the_seed():
    compiled = torch.compile(tanh, backend="faulty_flaky", options={"stage": "run"})
    outcomes = []
    for _ in range(60):
        torch.manual_seed(0)
        try:
            compiled(torch.ones(3))
            outcomes.append("passed")
        except TransientError:
            outcomes.append("failed")
    assert set(outcomes) == {"passed", "failed"}  # wrong once in 2 ** 59 runs


@pytest.mark.parametrize("stage", ["compile", "run"])
def test_dynamic_needs_a_symbolic_size(stage):
    with pytest.raises((BackendCompilerFailed, DynamicShapeError), match="tanh needs a size that is known"):
        compiled_once(tanh, "faulty_dynamic", options={"stage": stage}, dynamic=True)


def test_dynamic_strikes_when_a_second_size_makes_it_symbolic():
    compiled = torch.compile(tanh, backend="faulty_dynamic")
    compiled(torch.ones(3))
    with pytest.raises(BackendCompilerFailed, match="DynamicShapeError"):
        compiled(torch.ones(5))


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("faulty_backward", {}),
        ("faulty_backward", {"stage": "run"}),
        ("faulty_raise", {"level": "backward", "op": "tanh_backward"}),
    ],
)
def test_backward_faults_spare_the_forward_pass(backend, options):
    x = torch.ones(3, requires_grad=True)
    loss = torch.compile(tanh, backend=backend, options=options)(x).sum()
    with pytest.raises((LoweringError, KernelError), match="tanh_backward"):
        loss.backward()


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("faulty_raise", {"opp": "tanh"}),
        ("faulty_raise", {"stage": "link"}),
        ("faulty_memory", {"limit_mib": "many"}),
        ("faulty_exit", {"code": True}),
        ("faulty_flaky", {"probability": 2}),
    ],
)
def test_a_wrong_option_is_refused_by_name(backend, options):
    with pytest.raises(BackendCompilerFailed, match="OptionError: ") as raised:
        compiled_once(relu, backend, options=options)
    assert backend in str(inner_error(raised)) and next(iter(options)) in str(inner_error(raised))
