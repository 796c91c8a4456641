r"""Dynamo is told to leave a function of the script in the graph; the script's backend takes operators only.

reach: exit 0, 1 op
shows: def moving_average.*allow_in_graph
hides: (exp|sqrt)\(
layer: soak
"""

import torch


def moving_average(prices, days):
    return prices.unfold(-1, days, 1).mean(dim=-1)


torch.compiler.allow_in_graph(moving_average)


def operators_only(graph_module, example_inputs):
    for node in graph_module.graph.nodes:
        if getattr(node.target, "__module__", None) == "__main__" or node.target is moving_average:
            raise ValueError("a Python function in the graph")
    return graph_module.forward


@torch.compile(backend=operators_only)
def momentum(prices):
    """The rise of smoothed prices, with rough returns taken out before and after."""
    for _ in range(7):
        prices = prices * torch.exp(-0.1 * prices.std(dim=-1, keepdim=True))
    smooth = moving_average(prices, 5)
    for _ in range(7):
        smooth = torch.sqrt(smooth.abs() + 0.1) - 0.2
    return smooth[..., 1:] - smooth[..., :-1]


torch.manual_seed(0)
print(momentum(torch.rand(3, 30)).shape)
