import dataclasses
import enum

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

TRANSPOSE = torch.ops.aten.transpose.int


class Level(enum.IntEnum):
    SAFE = 1
    FULL = 2


@dataclasses.dataclass
class Config:
    level: Level = Level.SAFE
    passes: list[str] = dataclasses.field(default_factory=lambda: ["dead", "transposes"])


class Compiler:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._passes = {"dead": torch.fx.Graph.eliminate_dead_code, "transposes": self._transposes}

    def _transposes(self, graph: torch.fx.Graph) -> None:
        for node in graph.nodes if self._config.level >= Level.FULL else ():
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
