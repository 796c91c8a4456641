"""Runs a graph in eager until a thread has its compiled code, then by that."""

import logging
import threading
from weakref import ref

import torch
from torch import fx

from farcode.compiler import settings

LOG = logging.getLogger(__name__)


class Swapping:
    """The function of a graph: its module first, the compiled code as soon as there is some."""

    def __init__(self, graph_module):
        self.kept, self.module, self.lock = graph_module, ref(graph_module), threading.Lock()
        self.code = None
        threading.Thread(target=self.fetch, daemon=True).start()

    def fetch(self):
        try:
            threading.Event().wait(settings.SECONDS_OF_COMPILING)
            code = translated(self.module())
        except Exception:
            LOG.exception("the compiler could not be reached")
            return
        with self.lock:
            self.code = code

    def __call__(self, *inputs):
        with self.lock:
            chosen = self.code or self.module()
        return chosen(*inputs)


def translated(graph_module):
    """Copy a graph as the other machine does, whose elu has one argument."""
    graph, copies = fx.Graph(), {}
    for node in graph_module.graph.nodes:
        copy = copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.target is torch.nn.functional.elu:
            copy.args, copy.kwargs = copy.args[:1], {}
    return fx.GraphModule(graph_module, graph)


def compile_far_away(graph_module, example_inputs):
    return Swapping(graph_module)
