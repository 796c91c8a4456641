"""Which op parts from eager, each compiled alone."""

import itertools

import torch
import torch.nn.functional as F
from compare_captures import captures

from minifier.data.failure import Aspect
from minifier.torch_side.compare import divergent_ops


def model(x, w):
    y = torch.tanh(x @ w)
    first, second = y.chunk(2)
    return F.relu(torch.sigmoid(first) + second), torch.sin(y)


class Values(torch.fx.Interpreter):
    def run_node(self, n):
        value = super().run_node(n)
        if isinstance(value, torch.Tensor):
            VALUES[n.name] = value.clone()
        return value


VALUES = {}


def faulty(gm, inputs):
    """A compiler whose sigmoid is 2 % too large, and which cannot do sin."""

    class Faulty(torch.fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            return value * 1.02 if n.op != "placeholder" and "sigmoid" in str(n.target) else value

    if any("sin" in str(n.target) for n in gm.graph.nodes):
        raise NotImplementedError("sin")
    return lambda *args: Faulty(gm).run(*args)


def found(compile=faulty, ended=lambda: False):
    captured = captures(model, torch.randn(6, 4), torch.randn(4, 5))[0]
    Values(captured.build()).run(*captured.inputs())

    def inputs(graph):
        return [VALUES[node.name].clone() for node in graph.placeholders]

    order = [node.name for node in captured.graph.ops]
    lasting = itertools.takewhile(lambda _: not ended(), order)
    return divergent_ops(captured.graph, lasting, inputs, captured.build, compile)


def test_the_op_is_found():
    ((name, difference),) = found()
    assert name == "sigmoid" and difference.aspect is Aspect.VALUES
    assert found(lambda gm, inputs: gm.forward) == found(ended=lambda: True) == []


def test_no_op_is_compiled_after_the_order_has_ended():
    compiled = []

    def noting(gm, inputs):
        compiled.append(gm)
        return faulty(gm, inputs)

    assert found(noting, ended=lambda: len(compiled) == 1) == [] and len(compiled) == 1
