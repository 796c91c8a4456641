"""A backend on AOTAutograd: it compiles ATen graphs, and so can compile the backward pass too.

Found by torch through the entry point `reference_aot`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from minifier_backends.graphs import OP_KINDS
from minifier_backends.settings import OptionError


def reference_aot(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, object] | None = None
) -> Callable[..., Any]:
    """Compiles the forward and the backward graph, each to itself: for inference and for training.

    Option: `print_graphs` (bool, False) prints each ATen graph as it is compiled, the backward graph when
    the first backward pass begins. Raises OptionError for any other.
    """
    given = dict(options or {})
    print_graphs = given.pop("print_graphs", False)
    if given:
        raise OptionError(f"reference_aot has no option {next(iter(given))!r}; it takes print_graphs")
    if not isinstance(print_graphs, bool):
        raise OptionError(f"reference_aot: print_graphs must be of type bool, not {print_graphs!r}")
    backend = aot_autograd(
        fw_compiler=functools.partial(_compile, title="forward", print_graph=print_graphs),
        bw_compiler=functools.partial(_compile, title="backward", print_graph=print_graphs),
        inference_compiler=functools.partial(_compile, title="inference", print_graph=print_graphs),
    )
    return backend(gm, example_inputs)


def _compile(gm: fx.GraphModule, example_inputs: Sequence[Any], *, title: str, print_graph: bool) -> Callable[..., Any]:
    """Boxed, because AOTAutograd hands its arguments over in a list that the callee may empty."""
    if print_graph:
        ops = sum(node.op in OP_KINDS for node in gm.graph.nodes)
        print(f"{title} graph, {ops} ops:")
        gm.print_readable()
    return make_boxed_func(gm.forward)  # type: ignore[no-any-return]
