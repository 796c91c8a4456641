"""A candidate with symbolic sizes, as Dynamo would hand it to its backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.case import Case
from minifier.fx.build import build_graph
from minifier.fx.symbolic_inputs import symbolic_inputs
from minifier.fx.tensors import StoredTensors
from minifier.torch_private import SymbolicSizes

Compiler = Callable[[torch.fx.GraphModule, list[Any]], Any]


def call_with_symbols(
    compiler: Compiler, case: Case, values: Sequence[Any], tensors: StoredTensors
) -> tuple[Any, Callable[[Sequence[Any]], list[Any]]]:
    """(what the backend gives for the Case's graph, a function from values of the Case's inputs to those that it is
    to be called with). Raises what the backend raises.

    Symbols that tracing the graph turned into plain numbers are no longer inputs.
    """
    symbols, inputs, fakes = symbolic_inputs(case, values)
    module = build_graph(case.graph, tensors, lambda node: None, names=case.graph.input_names)
    _trace(symbols, module, fakes)
    spare = frozenset(symbols.unused(module))
    for position, node in enumerate(module.graph.find_nodes(op="placeholder")):
        if position in spare:
            module.graph.erase_node(node)
    module.recompile()

    def needed(items: Sequence[Any]) -> list[Any]:
        return [item for position, item in enumerate(items) if position not in spare]

    with symbols.around():
        return compiler(module, needed(inputs)), needed


def aten_with_symbols(
    case: Case, values: Sequence[Any], tensors: StoredTensors
) -> tuple[SymbolicSizes, torch.fx.GraphModule, list[Any]]:
    """(symbols, the Case's ATen graph, its example inputs), the latter being fake, as AOTAutograd has them."""
    symbols, _, fakes = symbolic_inputs(case, values)
    module = build_graph(case.graph, tensors, lambda node: None)
    _trace(symbols, module, fakes)
    for node in module.graph.nodes:
        if "example_value" in node.meta:
            node.meta["val"] = node.meta.pop("example_value")
    return symbols, module, fakes


def _trace(symbols: SymbolicSizes, module: torch.fx.GraphModule, fakes: Sequence[Any]) -> None:
    grad = torch.is_grad_enabled()
    try:
        symbols.trace(module, fakes)
    except Exception:  # noqa: BLE001, S110 - an op that has no fake form in a cut-out graph; its nodes lack the value
        pass
    finally:
        torch.set_grad_enabled(grad)
