"""A backend that refuses a graph which has all the `words` of its options in names of ops, nested graphs included."""

import torch


def strict(gm, inputs, *, options):
    graphs = [module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    names = [f"{node.target} {getattr(node.target, '__name__', '')}" for graph in graphs for node in graph.nodes]
    if all(any(word in name for name in names) for word in options["words"]):
        raise ValueError("unknown operator in graph")
    return gm.forward
