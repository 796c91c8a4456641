"""What the function of a script gives back, and how its gradients are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.case import Case, Ref, TensorInput, TensorMeta
from minifier.case.graph import Graph
from minifier.emit.input_source import tangent_source
from minifier.emit.naming import Names
from minifier.errors import NoRepro


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """One of the function's results; `differentiable` if a gradient of it can be asked for."""

    ref: str
    meta: TensorMeta | None
    differentiable: bool


def results_of(graph: Graph) -> tuple[ReturnValue, ...]:
    """The results in order. Raises NoRepro if they are not a flat sequence of values."""
    (given,) = graph.output.args
    items = given if isinstance(given, (tuple, list)) else (given,)
    metas: list[tuple[str, TensorMeta | None]] = []
    for item in items:
        if isinstance(item, (tuple, list, dict)):
            raise NoRepro("the graph gives back nested results, whose gradients cannot be written as a script yet")
        value = graph.node(item.name).value if isinstance(item, Ref) else None
        metas.append((item.name if isinstance(item, Ref) else "", value if isinstance(value, TensorMeta) else None))
    told = any(meta is not None and meta.requires_grad for _, meta in metas)
    return tuple(ReturnValue(name, meta, _is_differentiable(meta, told)) for name, meta in metas)


def _is_differentiable(meta: TensorMeta | None, told: bool) -> bool:
    """By requires_grad where the graph tells of any; else every result of a floating type."""
    if meta is None:
        return False
    return meta.requires_grad if told else is_floating(meta)


def is_floating(meta: TensorMeta) -> bool:
    """Whether tensors of this dtype can have gradients."""
    return meta.dtype.startswith(("float", "bfloat", "complex"))


def _differentiable(case: Case) -> list[tuple[int, ReturnValue]]:
    found = [(i, result) for i, result in enumerate(results_of(case.graph)) if result.differentiable]
    if not found:
        raise NoRepro("no result of the graph has a gradient")
    return found


def backward_pass(case: Case, names: Names) -> dict[str, str]:
    """For the template that runs a backward pass: `y, _ = ...` and `y.backward(...)` for these results."""
    chosen = dict(_differentiable(case))
    every = results_of(case.graph)
    called = {i: names.for_result() for i in chosen}
    given = [called[i] for i in chosen]
    targets = ", ".join(called.get(i, "_") for i in range(len(every)))
    tangents = [f"torch.randn_like({name})" for name in given]
    if len(given) == 1:
        backward = f"{given[0]}.backward({tangents[0]})"
    else:
        backward = f"torch.autograd.backward([{', '.join(given)}], [{', '.join(tangents)}])"
    return {"y =": f"{targets} =", "y.backward(torch.randn_like(y))": backward}


def _reached(graph: Graph, results: list[str]) -> set[str]:
    """Names of the nodes that these results are computed from."""
    found = set(results)
    for node in reversed(graph.nodes):
        if node.name in found:
            found.update(node.refs())
    return found


@dataclass(frozen=True, slots=True)
class Gradients:
    """What stands in `torch.autograd.grad(fn(x)[:2], [x, w], tangents)`: `picked` behind the call, `of`, `tangents`
    as a name; and `made`, the statement that makes the tangents."""

    picked: str
    of: str
    tangents: str
    made: str


def gradients(case: Case, inputs: dict[str, str]) -> Gradients:
    """For the template that compares gradients; raises NoRepro if there are none to compare."""
    chosen = _differentiable(case)
    every = results_of(case.graph)
    reached = _reached(case.graph, [result.ref for _, result in chosen])
    wanted = [
        inputs[item.name]
        for item in case.inputs
        if isinstance(item, TensorInput) and item.meta.requires_grad and item.name in reached
    ]
    if not wanted:
        raise NoRepro("no input of the graph requires a gradient")
    default = case.state.default_dtype
    tangents = [tangent_source(result.meta, default) for _, result in chosen if result.meta is not None]
    if len(chosen) == len(every):
        picked = ""
    elif len(chosen) == 1:
        picked = f"[{chosen[0][0]}]"
    elif [i for i, _ in chosen] == list(range(len(chosen))):
        picked = f"[:{len(chosen)}]"
    else:
        raise NoRepro("results with and without gradients alternate, which cannot be written as a script yet")
    of = wanted[0] if len(wanted) == 1 else f"[{', '.join(wanted)}]"
    if len(tangents) == 1:
        return Gradients(picked, of, "tangent", f"tangent = {tangents[0]}")
    return Gradients(picked, of, "tangents", f"tangents = [{', '.join(tangents)}]")


@dataclass(frozen=True, slots=True)
class BackwardFunction:
    """A torch.autograd.Function whose backward pass is the function: its source, the statements that make what
    stands for the results (whose gradients the function computes), what it is called with, and names for its
    result and for the gradient of that."""

    source: str
    made: tuple[str, ...]
    arguments: tuple[str, ...]
    result: str
    tangent: str


def backward_function(case: Case, inputs: dict[str, str], names: Names) -> BackwardFunction:
    """For an ATen graph of a backward pass. Raises NoRepro where an input is no tensor or a result is none."""
    tensors = [item for item in case.inputs if isinstance(item, TensorInput)]
    metas = [result.meta for result in results_of(case.graph) if result.meta is not None]
    if len(tensors) < len(case.inputs) or len(metas) < len(results_of(case.graph)):
        raise NoRepro("the backward graph has inputs or results that are no tensors")
    floats = [item for item in tensors if is_floating(item.meta)]
    if not floats or not all(map(is_floating, metas)):
        raise NoRepro("no input of the backward graph can be a gradient, or a result of it is none")
    tangent = next((item for item in floats if item.name.startswith("tangents")), floats[0])
    saved = [inputs[item.name] for item in tensors if item is not tangent]
    stands = [names.for_result() for _ in metas]
    default = case.state.default_dtype
    made = [
        f"{name} = {tangent_source(meta, default).removesuffix(')')}, requires_grad=True)"
        for name, meta in zip(stands, metas, strict=True)
    ]
    lines = [
        "class Function(torch.autograd.Function):",
        "    @staticmethod",
        f"    def forward({', '.join(['ctx', *stands, *saved])}):",
        f"        ctx.save_for_backward({', '.join(saved)})",
        f"        return torch.zeros({', '.join(map(str, tangent.meta.shape)) or '()'})",
        "",
        "    @staticmethod",
        f"    def backward(ctx, {inputs[tangent.name]}):",
        f"        {', '.join(saved) if len(saved) > 1 else f'({saved[0]},)' if saved else ''} = ctx.saved_tensors",
        f"        return {', '.join([_called(case, inputs, len(metas)), *('None' for _ in saved)])}",
    ]
    if not saved:
        lines = [line for line in lines if "save" not in line]
    return BackwardFunction("\n".join(lines), tuple(made), (*stands, *saved), names.for_result(), inputs[tangent.name])


def _called(case: Case, inputs: dict[str, str], results: int) -> str:
    call = f"fn({', '.join(inputs[item.name] for item in case.inputs)})"
    return call if results == 1 else f"*{call}"
