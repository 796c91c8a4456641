"""The faults that raise: where each strikes, where it does not, and what it says."""

import re
from pathlib import Path

import minifier_backends.faulty
import pytest
import torch
from minifier_backends import faulty
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


@pytest.mark.parametrize(
    ("backend", "function", "options", "error", "message"),
    [
        ("faulty_raise", tanh, None, LoweringError, "no lowering for tanh"),
        ("faulty_raise", relu, {"op": "relu"}, LoweringError, "no lowering for relu"),
        ("faulty_raise", lambda x: x.tanh(), None, LoweringError, "no lowering for tanh"),
        ("faulty_raise", lambda x: x + 1, {"op": "add"}, LoweringError, "no lowering for add"),
        ("faulty_raise", tanh_in_a_branch, None, LoweringError, "no lowering for tanh"),
        ("faulty_raise", tanh, {"level": "forward"}, LoweringError, "no lowering for tanh"),
        ("faulty_installed", tanh, None, LoweringError, "no lowering for tanh"),
        ("faulty_memory", tanh, {"limit_mib": 32}, MemoryError, "arena of 32 MiB exhausted"),
        ("faulty_pair", softmax_far_from_tanh, None, PartitionError, "softmax and tanh in one partition"),
        ("faulty_pair", relu, {"op": "relu", "with_op": "add"}, PartitionError, "add and relu"),
        ("faulty_adjacent", softmax_then_tanh, None, FusionError, "cannot fuse tanh with softmax"),
        ("faulty_adjacent", tanh_then_softmax, None, FusionError, "cannot fuse tanh with softmax"),
        ("faulty_two_errors", layer_norm_and_tanh, None, FusionError, "unsupported producer layer_norm"),
        ("faulty_two_errors", tanh, None, FusionError, "fusion.cc:188: cannot fuse tanh: missing producer"),
        ("faulty_flaky", tanh, {"probability": 1}, TransientError, "did not answer while lowering tanh"),
    ],
)
def test_raises_while_compiling(backend, function, options, error, message):
    with pytest.raises(BackendCompilerFailed, match=message) as raised:
        compiled_once(function, backend, options=options)
    assert type(inner_error(raised)) is error


@pytest.mark.parametrize(
    ("backend", "function", "options", "error", "message"),
    [
        ("faulty_raise", tanh, {"stage": "run"}, KernelError, "kernel of tanh failed"),
        ("faulty_raise", tanh, {"stage": "run", "level": "forward"}, KernelError, "kernel of tanh failed"),
        ("faulty_raise", tanh_in_a_branch, {"stage": "run"}, KernelError, "kernel of tanh failed"),
        ("faulty_memory", tanh, {"stage": "run", "limit_mib": 32}, MemoryError, "arena of 32 MiB"),
        ("faulty_pair", softmax_far_from_tanh, {"stage": "run"}, PartitionError, "in one partition"),
        ("faulty_adjacent", softmax_then_tanh, {"stage": "run"}, FusionError, "cannot fuse"),
        ("faulty_two_errors", tanh, {"stage": "run"}, FusionError, "missing producer"),
        ("faulty_flaky", tanh, {"stage": "run", "probability": 1.0}, TransientError, "did not answer"),
        ("faulty_on_call", tanh, {"call": 1}, WorkspaceError, "workspace of tanh was already released"),
    ],
)
def test_raises_when_the_compiled_function_runs(backend, function, options, error, message):
    with pytest.raises(error, match=message) as raised:
        compiled_once(function, backend, options=options)
    assert type(raised.value) is error  # and not in one of Dynamo's wrappers


@pytest.mark.parametrize(
    ("backend", "function", "options"),
    [
        ("faulty_raise", relu, None),
        ("faulty_raise", relu, {"stage": "run"}),
        ("faulty_raise", lambda x: x.tanh_(), None),
        ("faulty_raise", relu, {"level": "backward"}),
        ("faulty_raise", tanh, {"level": "backward", "op": "tanh"}),
        ("faulty_installed", relu, None),
        ("faulty_segfault", relu, None),
        ("faulty_abort", relu, None),
        ("faulty_exit", relu, None),
        ("faulty_hang", relu, None),
        ("faulty_memory", relu, None),
        ("faulty_pair", tanh, None),
        ("faulty_pair", lambda x: x.softmax(-1), None),
        ("faulty_adjacent", softmax_far_from_tanh, None),
        ("faulty_two_errors", relu, None),
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


def test_each_graph_counts_its_own_calls():
    compiled = torch.compile(tanh, backend="faulty_on_call", dynamic=False)
    compiled(torch.ones(3))
    compiled(torch.ones(4))
    with pytest.raises(WorkspaceError):
        compiled(torch.ones(3))


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
    ("backend", "options", "message"),
    [
        ("faulty_raise", {"opp": "tanh"}, "faulty_raise has no option 'opp'; it takes op, stage, level"),
        ("faulty_wrong", {"stage": "run"}, "faulty_wrong has no option 'stage'; it takes op, level, factor"),
        ("faulty_raise", {"stage": "link"}, "faulty_raise: stage must be one of compile, run, not 'link'"),
        ("faulty_memory", {"limit_mib": "many"}, "faulty_memory: limit_mib must be of type int, not 'many'"),
        ("faulty_exit", {"code": True}, "faulty_exit: code must be of type int, not True"),
        ("faulty_flaky", {"probability": 2}, "faulty_flaky: probability must be between 0 and 1, not 2"),
    ],
)
def test_a_wrong_option_is_refused_by_name(backend, options, message):
    with pytest.raises(BackendCompilerFailed, match="OptionError: ") as raised:
        compiled_once(relu, backend, options=options)
    assert str(inner_error(raised)) == message


def test_the_readme_lists_every_fault_with_its_options():
    readme = Path(__file__).resolve().parents[2] / "backends" / "README.md"
    rows = dict(re.findall(r"^\| `(faulty_[a-z_]+)` \| .+ \| (`op`.*) \|$", readme.read_text(), re.M))
    assert set(rows) == {*faulty.__all__, "faulty_installed"}
    for name in faulty.__all__:
        options = getattr(faulty, name).__doc__.splitlines()[-1]
        assert re.findall(r"`(\w+)`", rows[name]) == re.findall(r"(\w+)=", options)


@pytest.mark.parametrize("name", faulty.__all__)
def test_every_fault_is_importable_from_where_it_says(name):
    backend = getattr(minifier_backends.faulty, name)
    assert getattr(__import__(backend.__module__, fromlist=[name]), backend.__qualname__) is backend
    assert backend.__doc__.strip().splitlines()[-1].startswith("Options and their defaults: op='")
