"""Writes an ATen graph as a list of calls, some of them replaced, and runs the list. For `aot_autograd`."""

from functorch.compile import make_boxed_func
from torch.fx.node import map_arg


class Table:
    """Functions that take the place of operators."""

    def __init__(self, functions):
        self.functions = functions

    def choose(self, operator):
        return self.functions.get(operator, operator)


class Model:
    def __init__(self, graph_module, table, version):
        self.module, self.version = graph_module, version
        self.nodes = list(graph_module.graph.nodes)
        self.calls = {node: table.choose(node.target) for node in self.nodes if node.op == "call_function"}

    def __call__(self, *inputs):
        values, left = {}, list(reversed(inputs))
        for node in self.nodes:
            if node.op == "output":
                return map_arg(list(node.args[0]), values.__getitem__)
            if node in self.calls:
                arguments, keywords = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = self.calls[node](*arguments, **keywords)
            else:
                values[node] = left.pop() if node.op == "placeholder" else getattr(self.module, node.target)


def export(graph_module, inputs, *, models, table, version=18):
    """Compile a graph, and keep its model in the list of models."""
    models.append(Model(graph_module, table, version))
    return make_boxed_func(models[-1])
