"""A backend with a pool of workspaces: each is given back after one call, that of tanh for good."""

from torch._dynamo import register_backend


class Workspaces:
    """What the compiled function of a graph holds; called like the graph."""

    def __init__(self, graph_module):
        self.graph_module = graph_module
        self.ops = [str(getattr(node.target, "__name__", node.target)) for node in graph_module.graph.nodes]
        self.given_back = []

    def __call__(self, *inputs):
        for op in self.given_back:
            raise RuntimeError(f"workspace of {op} is no longer ours")
        results = self.graph_module.forward(*inputs)
        self.given_back = [op for op in self.ops if op == "tanh"]
        return results


@register_backend
def pooled(graph_module, example_inputs):
    return Workspaces(graph_module)
