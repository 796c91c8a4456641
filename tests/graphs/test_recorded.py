"""A failure that takes less of its values than it looks; more of these in tests/engine/test_refused.py."""

import pytest
import torch

from minifier.data.case import TensorInput, TensorMeta
from minifier.data.case.inputs import Recorded
from minifier.torch_side.fx.inputs import NotRecorded, RecordedValues, Recorder, make_inputs
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(120)


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
