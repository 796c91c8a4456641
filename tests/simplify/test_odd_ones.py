"""Failures that look as if they took more, or less, than they do."""

import pytest
import torch
from vocabulary import Bureau

from minifier.case import TensorInput, TensorMeta
from minifier.case.inputs import Recorded
from minifier.emit.repro import Template, write_repro
from minifier.fx.tensors import StoredTensors
from minifier.fx.values import NotRecorded, RecordedValues, Recorder, make_inputs

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
import torch.nn.functional as F
import picky


def fn(x, y):
    {body}


torch.compile(fn, backend="picky_{what}")({x}, {y})
"""

# What is refused, the function, its arguments; what the repro has, and what it says that it takes.
ODD = {
    "a size that is a number in an argument as well": (
        "square", "return x.pow(2).sin() + y", "torch.randn(2)", "torch.ones(2)",
        "    return x.pow(2)\n\n\nx = torch.randn(1)\n", (),
    ),
    "a value that is not a number": (
        "nan", "return x.relu() + y", "torch.tensor([[1.0, float('nan')], [2.0, 3.0]])", "torch.ones(2)",
        "tensors", ("these values",),
    ),
    "large values": (
        "large", "return x.relu() + y", "torch.linspace(0, 1000, 600).view(20, 30)", "torch.ones(30)",
        "x = torch.rand(", ("values in a range",),
    ),
    "a warning that quotes a size": (
        "mse", "return F.mse_loss(x, y)", "torch.randn(64, 1)", "torch.randn(64)",
        "mse_loss(x, ", (),
    ),
    "a size that has to be met": (
        "four", "return x.add(torch.ones(4)) * y", "torch.randn(4)", "torch.ones(4)",
        "x = torch.randn(4)\n", ("a size of exactly 4",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("about", ODD)
def test_what_is_left(bureau: Bureau, about):
    what, body, x, y, written, needs = ODD[about]
    captured = bureau.capture(SCRIPT.format(what=what, body=body, x=x, y=y))
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    summary, case = bureau.reduce()
    assert summary.error == "" and summary.one_minimal, summary
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    assert written in text and set(needs) <= set(case.needs), f"{text}\n{summary.needs}"
    assert needs or not case.needs, case.needs


def test_recorded_values_are_as_large_as_they_are_said_to_be(tmp_path):
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.sin, (graph.placeholder("x"),)))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    x = torch.arange(6.0).view(2, 3)
    Recorder(module, ["sin"], tmp_path).record([x])
    recorded = RecordedValues(tmp_path)

    def made(*shape, dtype="float32"):
        stride = torch.empty(shape).stride()
        item = TensorInput("a", TensorMeta(shape, stride, dtype), Recorded("sin"))
        return make_inputs((item,), StoredTensors(None), recorded)[0]

    assert torch.equal(made(2, 3), x.sin()) and torch.equal(made(2, 1), x.sin()[:, :1])
    assert torch.equal(made(2), x.sin()[0, :2]) and made(1, dtype="float64").dtype == torch.float64
    with pytest.raises(NotRecorded):
        made(3, 3)
