"""The results of a script's function, and the code that computes their gradients."""

from __future__ import annotations

from minifier.data.case import Case, Ref, TensorInput, TensorMeta
from minifier.data.case.graph import Graph
from minifier.errors import NoRepro
from minifier.repro.emit.input_source import tangent_source
from minifier.repro.emit.naming import Names
from minifier.repro.emit.steps import FormSource, Step, other_step


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


def is_floating(meta: TensorMeta) -> bool:
    """Whether tensors of this dtype, real or complex, can have gradients."""
    return meta.dtype.startswith(("float", "bfloat", "complex"))


def _differentiable(graph: Graph) -> dict[int, tuple[str, TensorMeta]]:
    """Return (node, its tensor's properties) of the results that have a gradient, by their places.

    If no result records requires_grad, every floating point result counts.
    """
    results = _results(graph)
    recorded = any(meta is not None and meta.requires_grad for _, meta in results)
    found = {
        place: (name, meta)
        for place, (name, meta) in enumerate(results)
        if meta is not None and (meta.requires_grad if recorded else is_floating(meta))
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


def backward_function(case: Case, inputs: dict[str, str], names: Names, compiled: str) -> FormSource:
    """Wrap an ATen graph of a backward pass in a torch.autograd.Function, whose `apply` is `compiled`.

    The graph lacks the forward inputs whose gradients it computes: the script has tensors that stand in for them.
    Raises NoRepro if an input or result is no tensor, a result is not floating, or no input is floating.
    """
    tensors = [item for item in case.inputs if isinstance(item, TensorInput)]
    metas = [meta for _, meta in _results(case.graph) if meta is not None]
    if len(tensors) < len(case.inputs) or len(metas) < len(_results(case.graph)):
        raise NoRepro("the backward graph has inputs or results that are no tensors")
    floats = [item for item in tensors if is_floating(item.meta)]
    if not floats or not all(map(is_floating, metas)):
        raise NoRepro("no input of the backward graph can be a gradient, or a result of it is none")
    tangent = next((item for item in floats if item.name.startswith("tangents")), floats[0])
    saved = [inputs[item.name] for item in tensors if item is not tangent]
    stand_ins = [names.for_result() for _ in metas]
    default = case.state.default_dtype
    assignments = tuple(
        f"{name} = {tangent_source(meta, default).removesuffix(')')}, requires_grad=True)"
        for name, meta in zip(stand_ins, metas, strict=True)
    )
    lines = [
        "class Function(torch.autograd.Function):",
        "    @staticmethod",
        f"    def forward({', '.join(['ctx', *stand_ins, *saved])}):",
        f"        ctx.save_for_backward({', '.join(saved)})",
        f"        return torch.zeros({', '.join(map(str, tangent.meta.shape)) or '()'})",
        "",
        "    @staticmethod",
        f"    def backward(ctx, {inputs[tangent.name]}):",
        f"        {', '.join(saved) if len(saved) > 1 else f'({saved[0]},)' if saved else ''} = ctx.saved_tensors",
        f"        return {', '.join([_call(case, inputs, len(metas)), *('None' for _ in saved)])}",
    ]
    if not saved:
        lines = [line for line in lines if "save" not in line]
    result = names.for_result()
    steps = (
        Step(f"{result} = {compiled}({', '.join([*stand_ins, *saved])})"),
        other_step(f"{result}.backward({inputs[tangent.name]})"),
    )
    return FormSource(steps, ("\n".join(lines),), assignments)


def _call(case: Case, inputs: dict[str, str], results: int) -> str:
    call = f"fn({', '.join(inputs[item.name] for item in case.inputs)})"
    return call if results == 1 else f"*{call}"
