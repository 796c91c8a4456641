"""A backend as serving engines write them: the graph is split, and inductor compiles each piece by itself.

The graph is cut around the ops in `SPLIT_AT`, which run eagerly between the pieces. Each piece goes to
`torch._inductor.standalone_compile` with its own example values, whose sizes may be symbolic. Importing this module
registers the backend as "pieces".

    torch.compile(model, backend="pieces", options={"op": "silu", "fault": "raise"})

`op` names an op that goes wrong in its piece, and `fault` says how: "raise" while compiling, "raise-run" when the
piece is called, "kill" (SIGSEGV) while compiling, or "value" (a result that is off by one). Without them nothing fails.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo import register_backend
from torch._inductor import standalone_compile
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.passes.split_module import split_module
from torch.utils._pytree import tree_map_only

from minifier_backends.graphs import op_name, op_names
from minifier_backends.settings import OptionError

FAULTS = ("", "raise", "raise-run", "kill", "value")
SPLIT_AT = ("scaled_dot_product_attention",)
Compiled = Callable[..., Any]


class PieceError(RuntimeError):
    """A piece of the graph could not be compiled."""


def compile_piece(piece: fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """What inductor makes of one piece, for all sizes that its example inputs stand for."""
    return standalone_compile(piece, list(example_inputs), dynamic_shapes="from_tracing_context")


def faulty(op: str, fault: str) -> Callable[[fx.GraphModule, Sequence[Any]], Compiled]:
    """`compile_piece`, which goes wrong in the given way on each piece that has the op."""

    def compile_with(piece: fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        if op not in op_names(piece):
            return compile_piece(piece, example_inputs)
        if fault == "raise":
            raise PieceError(f"no kernel for {op}")
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGSEGV)
        compiled = compile_piece(piece, example_inputs)

        def run(*args: Any) -> Any:
            if fault == "raise-run":
                raise PieceError(f"the kernel of {op} cannot be launched")
            return tree_map_only(torch.Tensor, lambda tensor: tensor + 1, compiled(*args))

        return run

    return compile_with


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
    op, fault = given.pop("op", ""), given.pop("fault", "")
    if given or bool(op) != bool(fault) or fault not in FAULTS:
        raise OptionError(f"pieces takes op and fault, one of {', '.join(filter(None, FAULTS))}; not {options}")
    split, eager = split_graph(gm)
    fakes = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
    mode = next(fake.fake_mode for fake in fakes if isinstance(fake, FakeTensor))
    with mode:
        Splitter(split, eager, faulty(op, fault) if op else compile_piece).run(*fakes)
    return split
