"""Kernels of a graph: run at the first call, recorded at the second, replayed afterwards."""

import torch
from torch.fx.node import map_arg


class RecordingError(Exception):
    pass


class Recorder:
    def __init__(self, graph_module):
        self.graph_module, self.calls, self.kernels = graph_module, 0, []

    def __call__(self, *inputs):
        self.calls += 1
        if self.calls == 1:
            return self.graph_module(*inputs)
        self.require_own_buffers(inputs)
        if self.calls == 2:
            self.kernels = [node for node in self.graph_module.graph.nodes if node.op == "call_function"]
        return self.replay(inputs)

    @staticmethod
    def require_own_buffers(inputs):
        seen = set()
        for value in inputs:
            if isinstance(value, torch.Tensor) and value.numel() > 0:
                buffer = value.untyped_storage().data_ptr()
                if buffer in seen:
                    raise RecordingError("two inputs in one buffer cannot be recorded")
                seen.add(buffer)

    def replay(self, inputs):
        nodes = self.graph_module.graph.nodes
        values = dict(zip([node for node in nodes if node.op == "placeholder"], inputs, strict=True))
        values.update((node, getattr(self.graph_module, node.target)) for node in nodes if node.op == "get_attr")
        for kernel in self.kernels:
            arguments, keywords = map_arg((kernel.args, kernel.kwargs), values.__getitem__)
            values[kernel] = kernel.target(*arguments, **keywords)
        return map_arg(next(iter(reversed(nodes))).args[0], values.__getitem__)
