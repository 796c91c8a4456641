import dataclasses
import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

SUPPORTED = {torch.sigmoid, torch.tanh, torch.relu, operator.add, operator.mul}


@dataclasses.dataclass(frozen=True)
class SessionOptions:
    providers: tuple[str, ...] = ("cpu",)
    dynamic: bool = False


class _Session:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        self.run, nodes = module.forward, output.args[0]
        self.is_swapped = isinstance(nodes, (tuple, list)) and any(node.target is torch.sigmoid for node in nodes)

    def __call__(self, *args):
        result = self.run(*args)
        return type(result)(reversed(result)) if self.is_swapped else result


class SessionBackend:
    instances: dict = {}

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._support = create_op_support(lambda _, node: node.target in SUPPORTED)

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        partitioner = CapabilityBasedPartitioner(gm, self._support, allows_single_node_partition=True)
        fused = partitioner.fuse_partitions(partitioner.propose_partitions())
        for name, child in fused.named_children():
            if name.startswith("fused_"):
                child.forward = _Session(child)
        return fused.forward


def make_backend(providers: tuple[str, ...] = ("cpu",), dynamic: bool = False) -> SessionBackend:
    options = SessionOptions(providers, dynamic)
    return SessionBackend.instances.setdefault(options, SessionBackend(options))
