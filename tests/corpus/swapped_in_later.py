"""Code that a thread compiles is swapped in after a moment, without the slope.

reach: exit 0, 1 op
shows: time[.]sleep.*
hides: for attempt
layer: soak
"""

import threading

import torch


class InBackground:
    """Runs the graph itself until its thread has compiled it."""

    def __init__(self, gm):
        self.gm, self.compiled = gm, None
        threading.Thread(target=self.compile, daemon=True).start()

    def compile(self):
        threading.Event().wait(0.05)
        graph, copies = torch.fx.Graph(), {}
        for node in self.gm.graph.nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.target is torch.nn.functional.leaky_relu:
                copies[node].args = copies[node].args[:1]
        self.compiled = torch.fx.GraphModule(self.gm, graph)

    def __call__(self, *args):
        return (self.compiled or self.gm)(*args)


def background(gm, example_inputs):
    return InBackground(gm)


@torch.compile(backend=background)
def f(x):
    for _ in range(6):
        x = torch.tanh(x + 0.5) * 3
    return torch.nn.functional.leaky_relu(x - 1, 0.4).sum(1)


with torch.no_grad():
    for _ in range(30):
        f(torch.linspace(-2, 2, 40).view(8, 5))
        threading.Event().wait(0.01)
