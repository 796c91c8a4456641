"""Each op of a captured graph has the file and the line of the user's code that it comes from."""

from __future__ import annotations

import inspect

import torch

from minifier.torch_side.fx.graphs import read_graph
from minifier.torch_side.fx.tensors import TensorFile


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        x = self.linear(x)  # torch's own code calls the op
        return x.tanh()


def test_an_op_has_the_line_of_the_users_code_that_made_it():
    graphs = []

    def keep(gm, inputs):
        graphs.append(read_graph(gm, TensorFile()))
        return gm.forward

    torch.compile(Model(), backend=keep)(torch.ones(1, 2))
    (graph,) = graphs
    first = inspect.getsourcelines(Model.forward)[1]
    assert [op.place for op in graph.ops] == [f"test_places.py:{first + 1}", f"test_places.py:{first + 2}"]
    assert graph.ops[1].source == "return x.tanh()"
