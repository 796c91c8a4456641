"""The results of a script's function, and the code that computes their gradients."""

from __future__ import annotations

from minifier.data.case import Case, Ref, TensorInput, TensorMeta
from minifier.data.case.graph import Graph
from minifier.data.case.values import is_float
from minifier.errors import NoRepro
from minifier.repro.emit.input_source import tangent_source
from minifier.repro.emit.script_text import Names


def _results(graph: Graph) -> list[tuple[str, TensorMeta | None]]:
    """Return (node, its tensor's properties) of each result; no node for a constant. Raises NoRepro for nested ones."""
    (output,) = graph.output.args
    results: list[tuple[str, TensorMeta | None]] = []
    for item in output if isinstance(output, (tuple, list)) else (output,):
        if isinstance(item, (tuple, list, dict)):
            raise NoRepro("the graph gives back nested results, whose gradients cannot be written as a script yet")
        name = item.name if isinstance(item, Ref) else ""
        value = graph.node(name).value if name else None
        results.append((name, value if isinstance(value, TensorMeta) else None))
    return results


def _differentiable(graph: Graph) -> dict[int, tuple[str, TensorMeta]]:
    """Return (node, its tensor's properties) of the results that have a gradient, by their places.

    If no result records requires_grad, every floating point result counts.
    """
    results = _results(graph)
    recorded = any(meta is not None and meta.requires_grad for _, meta in results)
    found = {
        place: (name, meta)
        for place, (name, meta) in enumerate(results)
        if meta is not None and (meta.requires_grad if recorded else is_float(meta.dtype))
    }
    if not found:
        raise NoRepro("no result of the graph has a gradient")
    return found


def backward_pass(case: Case, names: Names) -> tuple[str, str]:
    """Return the names of the results, `y, _`, and the statement that runs their backward pass."""
    result_names = {place: names.for_result() for place in _differentiable(case.graph)}
    targets = ", ".join(result_names.get(place, "_") for place in range(len(_results(case.graph))))
    results = list(result_names.values())
    tangents = [f"torch.randn_like({name})" for name in results]
    if len(results) == 1:
        return targets, f"{results[0]}.backward({tangents[0]})"
    return targets, f"torch.autograd.backward([{', '.join(results)}], [{', '.join(tangents)}])"


def _ancestors(graph: Graph, results: list[str]) -> set[str]:
    """Return the names of the results and of all nodes that they are computed from."""
    ancestors = set(results)
    for node in reversed(graph.nodes):
        if node.name in ancestors:
            ancestors.update(node.refs())
    return ancestors


def gradients(case: Case, names: dict[str, str]) -> tuple[str, str]:
    """Return the statement that makes the tangents, and what follows the call in `torch.autograd.grad(fn(x), x, y)`.

    Raises NoRepro if there are no gradients.
    """
    results = _differentiable(case.graph)
    ancestors = _ancestors(case.graph, [name for name, _ in results.values()])
    inputs = [
        names[item.name]
        for item in case.inputs
        if isinstance(item, TensorInput) and item.meta.requires_grad and item.name in ancestors
    ]
    if not inputs:
        raise NoRepro("no input of the graph requires a gradient")
    default = case.state.default_dtype
    tangents = [tangent_source(meta, default) for _, meta in results.values()]
    if len(results) == len(_results(case.graph)):
        index = ""
    elif len(results) == 1:
        index = f"[{next(iter(results))}]"
    elif list(results) == list(range(len(results))):
        index = f"[:{len(results)}]"
    else:
        raise NoRepro("results with and without gradients alternate, which cannot be written as a script yet")
    inputs_text = inputs[0] if len(inputs) == 1 else f"[{', '.join(inputs)}]"
    name, text = ("tangent", tangents[0]) if len(tangents) == 1 else ("tangents", f"[{', '.join(tangents)}]")
    return f"{name} = {text}", f"{index}, {inputs_text}, {name}"
