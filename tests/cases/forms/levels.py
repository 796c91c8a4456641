"""A compiler object with a configuration, as the graph compilers of accelerators have: it exports, rewrites, and runs.

Fault: at level 2 a pass takes `x.transpose(a, b).transpose(c, d)` for nothing, whatever the dimensions are.
"""

from __future__ import annotations

import dataclasses
import enum

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

TRANSPOSE = torch.ops.aten.transpose.int


class Level(enum.IntEnum):
    NONE = 0
    SAFE = 1
    FULL = 2


@dataclasses.dataclass
class Config:
    level: Level = Level.SAFE
    dump: bool = False
    passes: list[str] = dataclasses.field(default_factory=lambda: ["dead", "transposes"])


class Compiler:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._passes = {"dead": self._dead, "transposes": self._transposes}

    def _dead(self, graph: torch.fx.Graph) -> None:
        graph.eliminate_dead_code()

    def _transposes(self, graph: torch.fx.Graph) -> None:
        if self._config.level < Level.FULL:
            return
        for node in graph.nodes:
            inner = node.args[0] if node.target is TRANSPOSE else None
            if inner is not None and inner.target is TRANSPOSE:
                node.replace_all_uses_with(inner.args[0])

    def _compile(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        for name in self._config.passes:
            self._passes[name](gm.graph)
        gm.graph.eliminate_dead_code()
        gm.recompile()
        return make_boxed_func(gm.forward)

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        return aot_autograd(fw_compiler=self._compile)(gm, inputs)
