"""A backend as serving engines write them: the graph is split, and inductor compiles each piece by itself.

The graph is cut around the ops in `SPLIT_AT`, which run eagerly between the pieces. Each piece goes to
`torch._inductor.standalone_compile` with its own example values, whose sizes may be symbolic. Importing this module
registers the backend as "pieces".

    torch.compile(model, backend="pieces", options={"refuses": "silu"})

`refuses` names an op; a piece that has it cannot be compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx
from torch._dynamo import register_backend
from torch._inductor import standalone_compile
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.passes.split_module import split_module

from minifier_backends.graphs import op_name, op_names
from minifier_backends.settings import OptionError

SPLIT_AT = ("scaled_dot_product_attention",)
Compiled = Callable[..., Any]


class PieceError(RuntimeError):
    """A piece of the graph could not be compiled."""


def compile_piece(piece: fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """What inductor makes of one piece, for all sizes that its example inputs stand for."""
    return standalone_compile(piece, list(example_inputs), dynamic_shapes="from_tracing_context")


class Splitter(fx.Interpreter):
    """Runs the split graph on fake values, and replaces each of its pieces by a compiled one."""

    def __init__(self, split: fx.GraphModule, eager: set[str], compile_with: Callable[..., Compiled]) -> None:
        super().__init__(split)
        self.split, self.eager, self.compile_with = split, eager, compile_with

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().call_module(target, args, kwargs)
        if target not in self.eager:
            piece = self.split.get_submodule(target)
            self.split.__dict__[target] = self.compile_with(piece, args)
        return result


def split_graph(gm: fx.GraphModule) -> tuple[fx.GraphModule, set[str]]:
    """The graph as calls of submodules, and the names of those that hold an op to split at."""
    part, parts, eager = 0, {}, set()
    for node in gm.graph.nodes:
        if op_name(node, gm) in SPLIT_AT:
            parts[node], part = part + 1, part + 2
            eager.add(f"submod_{parts[node]}")
        else:
            parts[node] = part
    return split_module(gm, gm, lambda node: parts[node], keep_original_order=True), eager


@register_backend
def pieces(gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, str] | None = None) -> Compiled:
    """Splits the graph and compiles each piece; the pieces are called in their order, with real tensors."""
    given = dict(options or {})
    refused = given.pop("refuses", "")
    if given:
        raise OptionError(f"pieces has no option {next(iter(given))!r}; it takes refuses")

    def compile_with(piece: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        if refused in op_names(piece):
            raise PieceError(f"no kernel for {refused}")
        return compile_piece(piece, inputs)

    split, eager = split_graph(gm)
    fakes = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
    mode = next(fake.fake_mode for fake in fakes if isinstance(fake, FakeTensor))
    with mode:
        Splitter(split, eager, compile_with).run(*fakes)
    return split
