"""Inputs that are widened as ops take them, and the memory that this spares."""

import weakref

import pytest
import torch
from case_text import case_of

from minifier.torch_side.compare.runs import DOUBLE, EagerRuns, WidenedAsTaken, can_wait


def traced(function, *inputs):
    """Runs a function's graph with all inputs waiting: what it gives."""
    module = torch.fx.symbolic_trace(function)
    return WidenedAsTaken(module, DOUBLE, range(len(inputs))).run(*inputs)


def test_ops_get_wide_inputs_and_the_inputs_stay_narrow():
    weight, x = torch.full((3, 2), 1 / 3), torch.full((4, 2), 0.1)
    out = traced(lambda weight, x: (x @ weight.t(), weight), weight, x)
    assert [value.dtype for value in out] == [torch.float64, torch.float64]
    assert torch.equal(out[0], x.double() @ weight.double().t())
    assert weight.dtype == torch.float32


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_what_an_op_writes_to_an_input_is_there_for_the_next_one(mode):
    with mode():
        x, mean = torch.arange(6.0).reshape(3, 2), torch.zeros(2)
        out = traced(lambda mean, x: (torch.ops.aten.add_.Tensor(mean, x[0]), mean * 1), mean, x)
    assert torch.equal(out[1], torch.tensor([0.0, 1.0]).double())
    assert torch.equal(mean, torch.zeros(2))


def test_no_graph_of_gradients_is_kept():
    weight = torch.ones(3, requires_grad=True)
    assert not traced(lambda weight: weight * 2, weight).requires_grad


@pytest.mark.parametrize(
    ("value", "waits"),
    [
        (torch.ones(2, 3), True),
        (torch.ones(4, 6)[1:3], True),
        (torch.ones(2, 3, dtype=torch.float64), False),
        (torch.ones(2, 3, dtype=torch.int64), False),
        (torch.ones(4, 6)[:, ::2], False),
        (torch.ones(1).expand(6), False),
        (torch.eye(2).to_sparse(), False),
    ],
    ids=str,
)
def test_what_can_wait(value, waits):
    assert can_wait(value, DOUBLE) is waits


def test_weights_are_wide_one_at_a_time():
    wide, alive = [], []

    def product(value, weight):
        wide.append(weakref.ref(weight))
        alive.append(sum(weight() is not None for weight in wide))
        return value @ weight

    graph = torch.fx.Graph()
    value, *weights = [graph.placeholder(name) for name in ("x", *(f"w{i}" for i in range(8)))]
    for weight in [*weights, *weights]:
        value = graph.call_function(product, (value, weight))
    graph.output(value)
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    out = WidenedAsTaken(module, DOUBLE, range(9)).run(torch.ones(2, 4), *(torch.eye(4) for _ in range(8)))
    assert out.dtype is torch.float64 and len(wide) == 16 and max(alive) <= 2


def refuses_double(x):
    if x.dtype == torch.float64:
        raise TypeError("no double precision on this device")
    return x * 3


@pytest.mark.parametrize(("dtype", "reference"), [(torch.float16, torch.float32), (torch.float32, None)], ids=str)
def test_half_types_have_single_precision_where_double_is_refused(dtype, reference):
    graph = case_of("x: float16[4]\ny = refuse.double(x)\nreturn y,").graph

    def build(_):
        module = torch.fx.Graph()
        module.output((module.call_function(refuses_double, (module.placeholder("x"),)),))
        return torch.fx.GraphModule(torch.nn.Module(), module)

    runs = EagerRuns(graph, lambda: [torch.full((4,), 0.1, dtype=dtype)], build, False)
    runs.first()
    wide = runs.reference()
    assert (wide and wide.outputs[0].dtype) == reference
