"""The debugging backend: shows the graph, then runs it eagerly.

The idea is the custom backend of torch's documentation, whose table needs the package tabulate; this one
needs nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._dynamo import register_backend

HEADER = ("opcode", "name", "target", "args", "kwargs")
WIDEST = 48
"""Columns are padded no further, so that one long argument list does not push the rest off the screen."""


def graph_table(graph: fx.Graph) -> str:
    """The nodes of a graph as text, one line each under a header, in aligned columns."""
    rows = [HEADER]
    for node in graph.nodes:
        target = node.target if isinstance(node.target, str) else _target_name(node.target)
        rows.append((node.op, node.name, target, str(node.args), str(node.kwargs)))
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _target_name(target: Any) -> str:
    """How one would write the target: "aten.tanh.default", "torch.nn.functional.relu", "_operator.add"."""
    if hasattr(target, "_schema"):
        return str(target)
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", str(target))
    return f"{module}.{name}" if module else name


@register_backend(tags=("debug",))
def table(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Prints the graph, and below it the bodies of its higher-order ops, as tables; returns `gm.forward`."""
    for name, module in gm.named_modules():
        if isinstance(module, fx.GraphModule):
            if name:
                print(f"\n{name}:")
            print(graph_table(module.graph))
    return gm.forward
