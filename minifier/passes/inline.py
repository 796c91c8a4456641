"""Higher-order ops replaced by what they call: a checkpoint by the ops inside it, a `cond` by one of its branches."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from minifier.case import Case, Graph, Node, TensorMeta
from minifier.case.graph import Module, Ref, map_refs
from minifier.case.targets import HIGHER_ORDER
from minifier.case.values import Sequence_, Value

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
    """The ops that can be replaced: their results are taken one by one, and made by a graph that they hold."""
    return tuple(node.name for node in graph.ops if _call(graph, node, 0) is not None)


def has_branches(graph: Graph) -> bool:
    """Whether one of them has more than one graph to take its place."""
    return any(_call(graph, node, 1) is not None for node in graph.ops)


def holds_calls(graph: Graph, name: str) -> bool:
    """Whether what this op calls has such ops in it."""
    call = _call(graph, graph.node(name), 0)
    inner = graph.modules[call[0]].graph if call is not None else None
    return inner is not None and bool(calls(inner))


def inlined(case: Case, names: tuple[str, ...], branch: int = 0, *, deep: bool = True) -> Case:
    """The Case with these ops replaced, of a `cond` by the branch of this number; if `deep`, those inside them, too."""
    graph = _inlined(case.graph, frozenset(names), branch, deep)
    hints = tuple(tuple(name for name in names if name in graph.index) for names in case.failure.hints)
    failure = replace(case.failure, hints=tuple(hint for hint in dict.fromkeys(hints) if hint))
    return replace(case, graph=graph, failure=failure)


def _call(graph: Graph, node: Node, branch: int) -> tuple[str, tuple[Any, ...]] | None:
    """(where the graph is held, what it is called with) of an op that gives back what that graph does."""
    name = node.target.removeprefix(HIGHER_ORDER)
    if name == node.target:
        return None
    users = [graph.node(user) for user in graph.users[node.name]]
    if not all(user.target == "operator.getitem" and isinstance(user.args[1], int) for user in users):
        return None
    held = [arg for arg in node.args if isinstance(arg, Ref) and _is_graph(graph, arg)]
    rest = [arg for arg in node.args if arg not in held]
    if name == "cond" and len(held) == 2:
        body, operands = held[branch], rest[-1]
    elif name == "while_loop" and len(held) == 2 and not branch:
        body, operands = held[1], (*rest[0], *rest[1])
    elif name in _CALLS_ITS_BODY and held and not branch:
        after = node.args[node.args.index(held[-1]) + 1 :]
        body, operands = held[0], after[1:] if name == "invoke_subgraph" else after
    else:
        return None
    target = graph.node(body.name).target
    inner = graph.modules[target].graph
    assert inner is not None
    fits = len(inner.placeholders) == len(operands) and isinstance(_results(inner), (tuple, list))
    return (target, tuple(operands)) if fits else None


def _is_graph(graph: Graph, ref: Ref) -> bool:
    node = graph.node(ref.name)
    return node.op == "get_attr" and node.target in graph.modules and graph.modules[node.target].graph is not None


def _results(inner: Graph) -> Any:
    """What a graph gives back; of the forward graph of an autograd function without what it saves."""
    (results,) = inner.output.args
    paired = isinstance(results, tuple) and len(results) == 2 and all(isinstance(each, tuple) for each in results)
    return results[0] if paired else results


class _Inliner:
    def __init__(self, graph: Graph, chosen: frozenset[str], branch: int, deep: bool) -> None:
        self.graph, self.chosen, self.branch, self.deep = graph, chosen, branch, deep
        self.nodes: list[Node] = []
        self.values: dict[str, Any] = {}  # what stands for a node that is gone
        self.results: dict[str, Any] = {}  # what the ops gave back that are gone
        self.taken = set(graph.index)
        self.attributes = dict(graph.attributes)
        self.modules: dict[str, Module] = dict(graph.modules)
        self.storages = 1 + max((n for node in graph.nodes for n in _storages(node.value)), default=0)

    def changed(self, value: Any) -> Any:
        return map_refs(value, lambda ref: self.values.get(ref.name, ref))

    def run(self) -> Graph:
        for node in self.graph.nodes:
            call = _call(self.graph, node, self.branch) if node.name in self.chosen else None
            if node.name in self.chosen and call is None:  # it has no such branch
                call = _call(self.graph, node, 0)
            if call is not None:
                self.results[node.name] = self.body(node.name, *call)
            elif node.target == "operator.getitem" and node.args[0].name in self.results:
                self.values[node.name] = self.results[node.args[0].name][node.args[1]]
            else:
                self.nodes.append(replace(node, args=self.changed(node.args), kwargs=self.changed(node.kwargs)))
        read = {name for node in self.nodes for name in node.refs()}
        nodes = tuple(node for node in self.nodes if node.op != "get_attr" or node.name in read)
        held = {node.target for node in nodes if node.op in ("get_attr", "call_module")}
        return Graph(
            nodes,
            {target: key for target, key in self.attributes.items() if target in held},
            {t: m for t, m in self.modules.items() if any(h == t or h.startswith(t + ".") for h in held)},
        )

    def body(self, op: str, target: str, operands: tuple[Any, ...]) -> Any:
        """Adds the nodes of the graph that `op` calls; gives what it gives back."""
        inner = self.graph.modules[target].graph
        assert inner is not None
        inner = _inlined(inner, frozenset(calls(inner) if self.deep else ()), self.branch, self.deep)
        values: dict[str, Any] = {}
        storages: dict[int, int] = {}
        for placeholder, operand in zip(inner.placeholders, operands, strict=True):
            given = self.changed(operand)
            values[placeholder.name] = given
            if isinstance(given, Ref) and given.name in self.graph.index:
                pairs = zip(_storages(placeholder.value), _storages(self.graph.node(given.name).value), strict=False)
                storages.update(pairs)
        for node in inner.nodes:
            if node.op in ("placeholder", "output"):
                continue
            name = _free(self.taken, node.name, op)
            self.taken.add(name)
            held = node.target
            if node.op in ("get_attr", "call_module"):
                held = _free({*self.modules, *self.attributes}, node.target.replace(".", "_"), op)
                self.attributes |= {held: inner.attributes[node.target]} if node.target in inner.attributes else {}
                self.modules |= {held: inner.modules[node.target]} if node.target in inner.modules else {}
            self.nodes.append(
                replace(
                    node,
                    name=name,
                    target=held,
                    args=_with(node.args, values),
                    kwargs=_with(node.kwargs, values),
                    value=self.renumbered(node.value, storages),
                )
            )
            values[node.name] = Ref(name)
        return _with(_results(inner), values)

    def renumbered(self, value: Value, known: dict[int, int]) -> Value:
        """The value with storages numbered as in the graph around it."""
        if isinstance(value, Sequence_):
            return Sequence_(tuple(self.renumbered(item, known) for item in value.items))
        if not isinstance(value, TensorMeta) or value.storage is None:
            return value
        if value.storage not in known:
            known[value.storage] = self.storages
            self.storages += 1
        return replace(value, storage=known[value.storage])


def _free(taken: Collection[str], wanted: str, op: str) -> str:
    """A name that is not taken: the one that is wanted, or with that of the op before it, or numbered."""
    names = itertools.chain([wanted], (f"{op}_{wanted}{number or ''}" for number in itertools.count()))
    return next(name for name in names if name not in taken)


def _with(value: Any, values: Mapping[str, Any]) -> Any:
    return map_refs(value, lambda ref: values[ref.name])


def _storages(value: Value) -> list[int]:
    if isinstance(value, Sequence_):
        return [number for item in value.items for number in _storages(item)]
    return [value.storage] if isinstance(value, TensorMeta) and value.storage is not None else []


def _inlined(graph: Graph, chosen: frozenset[str], branch: int, deep: bool) -> Graph:
    return _Inliner(graph, chosen, branch, deep).run() if chosen else graph
