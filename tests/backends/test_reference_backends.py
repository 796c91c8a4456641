"""The backends that work: table, reference_aot, speedy and first_of."""

import logging

import pytest
import torch
from functorch.compile import make_boxed_func
from minifier_backends.composable import FallbackError, first_of
from minifier_backends.errors import LoweringError
from minifier_backends.faulty import faulty_segfault
from minifier_backends.speedy import SpeedyError, TrainingNotSupported, speedy
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed


def normalize(x, weight):
    return torch.nn.functional.softmax(x @ weight, dim=-1)


def small_network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())


@pytest.fixture
def fallbacks(caplog):
    """What first_of has logged as warnings so far; a function."""

    def messages():
        records = [record for record in caplog.records if record.name == "minifier_backends.composable"]
        assert all(record.levelno == logging.WARNING for record in records)
        return [record.getMessage() for record in records]

    return messages


# table


# reference_aot


def test_aot_trains_as_eager_does(capsys):
    eager, compiled = small_network(), small_network()
    x = torch.randn(2, 3, 6, 6)
    eager(x).square().sum().backward()
    torch.compile(compiled, backend="reference_aot")(x).square().sum().backward()
    for expected, found in zip(eager.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)
    assert capsys.readouterr().out == ""


def test_aot_prints_the_forward_and_the_backward_graph(capsys):
    options = {"print_graphs": True}
    y = torch.compile(torch.tanh, backend="reference_aot", options=options)(torch.ones(3, requires_grad=True))
    forward = capsys.readouterr().out
    y.sum().backward()
    backward = capsys.readouterr().out
    assert forward.startswith("forward graph, ")
    assert "torch.ops.aten.tanh.default" in forward
    assert backward.startswith("backward graph, ")
    assert "torch.ops.aten" in backward


# speedy


def test_speedy_computes_what_eager_computes():
    network = small_network().eval()
    compiled = torch.compile(network, backend="speedy")
    with torch.no_grad():
        for batch in (2, 3):  # the second size is symbolic
            x = torch.randn(batch, 3, 6, 6)
            for _ in range(3):  # TorchScript optimises during the first calls
                torch.testing.assert_close(compiled(x), network(x))


def test_speedy_refuses_training_and_says_what_to_do():
    with pytest.raises(BackendCompilerFailed, match=r"4 of \d+ tensors require grad") as raised:
        torch.compile(small_network().eval(), backend="speedy")(torch.randn(2, 3, 6, 6))
    assert isinstance(raised.value.inner_exception, TrainingNotSupported)


@torch._dynamo.allow_in_graph
def unscriptable(x, *rest):
    return sum((y.sin() for y in rest), x)  # TorchScript knows neither *rest nor generators


def branches(x, y):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) + y


def test_speedy_traces_what_it_cannot_script():
    compiled = torch.compile(lambda x, y: unscriptable(x, y) * 2, backend="speedy")
    with torch.no_grad():
        for _ in range(2):
            x, y = torch.randn(2, 3), torch.randn(2, 3)
            torch.testing.assert_close(compiled(x, y), (x + y.sin()) * 2)


@pytest.mark.parametrize(
    ("function", "dynamic", "reason"),
    [
        (branches, None, "cannot be traced: it has the higher-order op cond"),
        (unscriptable, True, "cannot be traced: it has symbolic sizes"),
    ],
)
def test_speedy_says_why_a_graph_can_be_neither_scripted_nor_traced(function, dynamic, reason):
    compiled = torch.compile(lambda x: function(x, x), backend="speedy", dynamic=dynamic)
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match=reason) as raised:
        compiled(torch.ones(3, 2))
    assert isinstance(raised.value.inner_exception, SpeedyError)
    assert "cannot be scripted: " in str(raised.value)


def through_python(x, *rest):
    return sum((float(y.sum()) for y in rest), x)  # a float is a constant in a trace


def test_speedy_refuses_a_trace_that_is_right_for_one_input_only():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(through_python, (x, x)),))
    with pytest.raises(SpeedyError, match="cannot be traced: SpeedyError: the trace does not follow"):
        speedy(fx.GraphModule({}, graph), [torch.ones(3)])


# first_of


def mutating_and_failing(gm, example_inputs):
    """What a backend may do at its worst: it spoils the graph it was given, and then gives up."""
    for node in list(gm.graph.nodes):
        if node.op == "call_function":
            node.target = torch.zeros_like
    gm.recompile()
    example_inputs.clear()
    raise LoweringError("gave up halfway")


def aot_eager(gm, example_inputs):
    return aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward))(gm, example_inputs)


def test_first_of_takes_the_first_that_can(fallbacks):
    seen = []

    def working(gm, example_inputs):
        seen.append(gm)
        return gm.forward

    backend = first_of("not_installed", mutating_and_failing, working, faulty_segfault)
    x = torch.linspace(0, 1, 4)
    torch.testing.assert_close(torch.compile(torch.tanh, backend=backend)(x), torch.tanh(x))
    assert len(seen) == 1
    assert len(fallbacks()) == 2
    assert "not_installed cannot compile this graph: InvalidBackend: " in fallbacks()[0]
    assert fallbacks()[1].endswith("mutating_and_failing cannot compile this graph: LoweringError: gave up halfway")


@pytest.mark.usefixtures("laborious")
@pytest.mark.parametrize("dynamic", [None, True])
def test_first_of_hands_aot_backends_a_complete_copy(dynamic, fallbacks):
    network = small_network()
    compiled = torch.compile(network, backend=first_of(mutating_and_failing, aot_eager), dynamic=dynamic)
    x = torch.randn(2, 3, 6, 6)
    torch.testing.assert_close(compiled(x), network(x))
    compiled(x).sum().backward()
    assert network[0].weight.grad is not None
    assert fallbacks()
    assert not [message for message in fallbacks() if "mutating_and_failing cannot compile" not in message]


def test_first_of_ends_in_eager_and_says_so(fallbacks):
    x = torch.linspace(0, 1, 4)
    compiled = torch.compile(torch.tanh, backend=first_of("faulty_raise", mutating_and_failing))
    torch.testing.assert_close(compiled(x), torch.tanh(x))
    assert len(fallbacks()) == 3
    assert fallbacks()[-1].endswith("no backend is left, so the graph runs eagerly")


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        (first_of("faulty_raise", "eager", strict=True), None),
        (first_of("faulty_raise", "eager"), {"strict": True}),
    ],
)
def test_first_of_strict_makes_a_fallback_an_error(backend, options, fallbacks):
    with pytest.raises(BackendCompilerFailed, match="no lowering for tanh") as raised:
        torch.compile(torch.tanh, backend=backend, options=options)(torch.ones(3))
    error = raised.value.inner_exception
    assert isinstance(error, FallbackError)
    assert isinstance(error.__cause__, LoweringError)
    assert fallbacks() == []


@pytest.mark.soak
@pytest.mark.usefixtures("processes")
def test_first_available_falls_back_from_tensorrt_to_inductor(fallbacks):
    x = torch.linspace(0, 1, 4)
    torch.testing.assert_close(torch.compile(torch.tanh, backend="first_available")(x), torch.tanh(x))
    assert any("tensorrt cannot compile this graph" in message for message in fallbacks())
    assert not any("no backend is left" in message for message in fallbacks())
