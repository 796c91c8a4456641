"""Higher-order ops to the ops of a body."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from minifier.data.case import Case, Graph, Node, TensorMeta
from minifier.data.case.graph import Module, Ref, map_refs
from minifier.data.case.values import Sequence_, Value
from minifier.data.torch_names import HIGHER_ORDER

_CALLS_ITS_BODY = {
    "autograd_function_apply",
    "invoke_subgraph",
    "tag_activation_checkpoint",
    "wrap",
    "wrap_activation_checkpoint",
    "wrap_with_autocast",
    "wrap_with_set_grad_enabled",
}


def calls(graph: Graph) -> tuple[str, ...]:
    """Return the ops that can be replaced: a body computes their results, which getitems read."""
    return tuple(node.name for node in graph.ops if _call(graph, node, 0) is not None)


def has_branches(graph: Graph) -> bool:
    """Return whether a replaceable op has two bodies to choose from."""
    return any(_call(graph, node, 1) is not None for node in graph.ops)


def holds_calls(graph: Graph, name: str) -> bool:
    """Return whether the op's body has replaceable ops itself."""
    call = _call(graph, graph.node(name), 0)
    inner = graph.modules[call[0]].graph if call is not None else None
    return inner is not None and bool(calls(inner))


def inlined(case: Case, names: tuple[str, ...], branch: int = 0, *, deep: bool = True) -> Case:
    """Return the Case with these ops replaced by a body, a `cond` by the chosen branch; if `deep`, recursively."""
    graph = _inlined(case.graph, frozenset(names), branch, deep)
    hints = tuple(tuple(name for name in names if name in graph.index) for names in case.failure.hints)
    failure = replace(case.failure, hints=tuple(hint for hint in dict.fromkeys(hints) if hint))
    return replace(case, graph=graph, failure=failure)


def _call(graph: Graph, node: Node, branch: int) -> tuple[str, tuple[Any, ...]] | None:
    """Return the target and the operands of the body that computes the op's results; None if there is no body."""
    name = node.target.removeprefix(HIGHER_ORDER)
    if name == node.target:
        return None
    users = [graph.node(user) for user in graph.users[node.name]]
    if not all(user.target == "operator.getitem" and isinstance(user.args[1], int) for user in users):
        return None
    bodies = [arg for arg in node.args if isinstance(arg, Ref) and _is_graph(graph, arg)]
    rest = [arg for arg in node.args if arg not in bodies]
    if name == "cond" and len(bodies) == 2:
        body, operands = bodies[branch], rest[-1]
    elif name == "while_loop" and len(bodies) == 2 and not branch:
        body, operands = bodies[1], (*rest[0], *rest[1])
    elif name in _CALLS_ITS_BODY and bodies and not branch:
        after = node.args[node.args.index(bodies[-1]) + 1 :]
        body, operands = bodies[0], after[1:] if name == "invoke_subgraph" else after
    else:
        return None
    target = graph.node(body.name).target
    inner = graph.modules[target].graph
    assert inner is not None
    first = inner.placeholders[0].name if inner.placeholders else ""
    if name == "autograd_function_apply" and len(inner.placeholders) > len(operands) and not inner.users[first]:
        operands = (None, *operands)  # its context, which torch 2.10 and earlier hand over
    fits = len(inner.placeholders) == len(operands) and isinstance(_results(inner), (tuple, list))
    return (target, tuple(operands)) if fits else None


def _is_graph(graph: Graph, ref: Ref) -> bool:
    node = graph.node(ref.name)
    return node.op == "get_attr" and node.target in graph.modules and graph.modules[node.target].graph is not None


def _results(inner: Graph) -> Any:
    """Return the results of a body. The forward graph of an autograd function also returns saved tensors; skip them."""
    (results,) = inner.output.args
    is_pair = isinstance(results, tuple) and len(results) == 2
    paired = is_pair and all(isinstance(item, (tuple, list)) for item in results)
    return results[0] if paired else results


class _Inliner:
    def __init__(self, graph: Graph, chosen: frozenset[str], branch: int, deep: bool) -> None:
        self.graph, self.chosen, self.branch, self.deep = graph, chosen, branch, deep
        self.nodes: list[Node] = []
        self.values: dict[str, Any] = {}  # node of the original graph -> its replacement
        self.results: dict[str, Any] = {}  # replaced op -> its results
        self.names = set(graph.index)
        self.attributes = dict(graph.attributes)
        self.modules: dict[str, Module] = dict(graph.modules)
        self.next_storage = 1 + max((n for node in graph.nodes for n in _storages(node.value)), default=0)

    def replaced(self, value: Any) -> Any:
        return map_refs(value, lambda ref: self.values.get(ref.name, ref))

    def run(self) -> Graph:
        for node in self.graph.nodes:
            call = _call(self.graph, node, self.branch) if node.name in self.chosen else None
            if node.name in self.chosen and call is None:  # it has no second branch
                call = _call(self.graph, node, 0)
            if call is not None:
                self.results[node.name] = self.body(node.name, *call)
            elif node.target == "operator.getitem" and node.args[0].name in self.results:
                self.values[node.name] = self.results[node.args[0].name][node.args[1]]
            else:
                self.nodes.append(node.reading(self.values))
        read = {name for node in self.nodes for name in node.refs()}
        nodes = tuple(node for node in self.nodes if node.op != "get_attr" or node.name in read)
        targets = {node.target for node in nodes if node.op in ("get_attr", "call_module")}
        return Graph(
            nodes,
            {target: key for target, key in self.attributes.items() if target in targets},
            {t: m for t, m in self.modules.items() if any(used == t or used.startswith(t + ".") for used in targets)},
        )

    def body(self, op: str, target: str, operands: tuple[Any, ...]) -> Any:
        """Add the nodes of the body that `op` calls; return its results."""
        inner = self.graph.modules[target].graph
        assert inner is not None
        inner = _inlined(inner, frozenset(calls(inner) if self.deep else ()), self.branch, self.deep)
        values: dict[str, Any] = {}
        storages: dict[int, int] = {}
        for placeholder, operand in zip(inner.placeholders, operands, strict=True):
            value = values[placeholder.name] = self.replaced(operand)
            if isinstance(value, Ref) and value.name in self.graph.index:
                pairs = zip(_storages(placeholder.value), _storages(self.graph.node(value.name).value), strict=False)
                storages.update(pairs)
        for node in inner.nodes:
            if node.op in ("placeholder", "output"):
                continue
            name = _free(self.names, node.name, op)
            self.names.add(name)
            new_target = node.target
            if node.op in ("get_attr", "call_module"):
                new_target = _free({*self.modules, *self.attributes}, node.target.replace(".", "_"), op)
                if node.target in inner.attributes:
                    self.attributes[new_target] = inner.attributes[node.target]
                if node.target in inner.modules:
                    self.modules[new_target] = inner.modules[node.target]
            self.nodes.append(
                replace(node.reading(values), name=name, target=new_target, value=self.renumbered(node.value, storages))
            )
            values[node.name] = Ref(name)
        return map_refs(_results(inner), lambda ref: values[ref.name])

    def renumbered(self, value: Value, numbers: dict[int, int]) -> Value:
        """Return the value with its storages numbered for the outer graph."""
        if isinstance(value, Sequence_):
            return Sequence_(tuple(self.renumbered(item, numbers) for item in value.items))
        if not isinstance(value, TensorMeta) or value.storage is None:
            return value
        if value.storage not in numbers:
            numbers[value.storage] = self.next_storage
            self.next_storage += 1
        return replace(value, storage=numbers[value.storage])


def _free(names: Collection[str], wanted: str, op: str) -> str:
    """Return the first free name: `wanted`, `op_wanted`, then `op_wanted1`, `op_wanted2`, ..."""
    candidates = itertools.chain([wanted], (f"{op}_{wanted}{number or ''}" for number in itertools.count()))
    return next(name for name in candidates if name not in names)


def _storages(value: Value) -> list[int]:
    if isinstance(value, Sequence_):
        return [number for item in value.items for number in _storages(item)]
    return [value.storage] if isinstance(value, TensorMeta) and value.storage is not None else []


def _inlined(graph: Graph, chosen: frozenset[str], branch: int, deep: bool) -> Graph:
    return _Inliner(graph, chosen, branch, deep).run() if chosen else graph
