"""The backend, which the entry point `roundlib` of the group torch_dynamo_backends leads to."""

from dataclasses import dataclass

from torch import fx

from roundlib.rounding import Rounding

PRODUCTS = ("linear", "conv1d", "conv2d")


@dataclass(frozen=True)
class Options:
    bits: int = 8
    for_each_row: bool = True
    keep: tuple[str, ...] = ()  # nodes whose weights stay as they are


class Rounded:
    """A product that rounds its weight first."""

    def __init__(self, product, rounding):
        self.product, self.rounding = product, rounding
        self.__name__, self.__module__ = f"rounded_{product.__name__}", __name__

    def __call__(self, x, weight, *rest, **keywords):
        return self.product(x, self.rounding(weight), *rest, **keywords)


def compile_rounded(graph_module, example_inputs, *, options=None):
    chosen = Options(**(options or {}))
    rounding = Rounding(chosen.bits, chosen.for_each_row)
    graph, copies = fx.Graph(), {}
    for node in graph_module.graph.nodes:
        copy = copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op == "call_function" and getattr(node.target, "__name__", "") in PRODUCTS:
            copy.target = node.target if copy.name in chosen.keep else Rounded(node.target, rounding)
    return fx.GraphModule(graph_module, graph)
