"""An FX graph as plain data: read, cut and written without torch.

Cutting (`subset`) is the heart of the search: every set of ops is a valid graph, because a value that
comes from an op outside the set becomes an input and a value that is used outside becomes an output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from minifier.case.targets import is_higher_order
from minifier.case.values import Opaque, Size, TensorMeta, Value

UNKNOWN = Opaque("unknown")
OPS = frozenset({"call_function", "call_method", "call_module"})


@dataclass(frozen=True, slots=True)
class Ref:
    """A node used as an argument, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `target` is an importable path (call_function), a method's name, or an attribute's. `origin` is
    what Dynamo called the op at first; of a node that AOTAutograd made, the op of Dynamo's graph behind it."""

    name: str
    op: str
    target: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    value: Value = UNKNOWN
    source: str = ""
    origin: str = ""

    @property
    def is_op(self) -> bool:
        """Whether the node counts as an op: a call, not a placeholder, get_attr or output."""
        return self.op in OPS

    def refs(self) -> Iterator[str]:
        """Names of the nodes this one reads, in order, with repetition."""
        yield from refs_in(self.args)
        yield from refs_in(self.kwargs)

    @property
    def short_target(self) -> str:
        """The last part of the target: `tanh` of `torch.tanh`; overload names are not taken for it."""
        parts = self.target.replace(":", ".").split(".")
        if "ops" in parts[:2] and len(parts) > 4:
            return parts[-2]
        return parts[-1]


@dataclass(frozen=True)
class Module:
    """A module that the graph calls or holds: a class with its plain attributes and tensors, or a graph.

    Tensors are keys of the Case's attribute tensors; `children` are nested modules by name.
    """

    type: str
    plain: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    children: dict[str, Module] = field(default_factory=dict)
    training: bool = False
    graph: Graph | None = None


@dataclass(frozen=True)
class Graph:
    """Nodes in order, and what `get_attr` and `call_module` refer to.

    `attributes` maps a get_attr target to the key of a stored tensor.
    """

    nodes: tuple[Node, ...]
    attributes: dict[str, str] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each node by name."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """Names of the nodes that read each node, in order."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in dict.fromkeys(node.refs()):
                found[name].append(node.name)
        return {name: tuple(users) for name, users in found.items()}

    @property
    def placeholders(self) -> tuple[Node, ...]:
        """Input nodes, in order."""
        return tuple(node for node in self.nodes if node.op == "placeholder")

    @property
    def ops(self) -> tuple[Node, ...]:
        """Call nodes, in order."""
        return tuple(node for node in self.nodes if node.is_op)

    @property
    def output(self) -> Node:
        """The output node."""
        return self.nodes[-1]

    def node(self, name: str) -> Node:
        """The node of that name; raises KeyError."""
        return self.nodes[self.index[name]]

    @cached_property
    def input_names(self) -> dict[str, str]:
        """Names, as Dynamo gives them to inputs, for those that were an op's result before a cut. By their own they
        would tell a backend of an op that is not there."""
        cut = [n.name for n in self.placeholders if n.target == n.name and not n.name.startswith("l_")]
        cut = [name for name in cut if isinstance(self.node(name).value, TensorMeta)]
        return {name: f"l_v{i}_" for i, name in enumerate(cut)}

    @cached_property
    def free_names(self) -> tuple[str, ...]:
        """Node names that say nothing about an op: a name that is also an op's target is not among them."""
        targets = {node.short_target for node in self.nodes if node.is_op}
        named = [self.input_names.get(node.name, node.name) for node in self.nodes if node.op != "output"]
        return tuple(name for name in named if name.rstrip("0123456789").rstrip("_") not in targets)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The argument with all that is no container changed; containers are rebuilt."""
    if isinstance(value, Size):
        return Size(tuple(map_leaves(item, change) for item in value.items))
    if isinstance(value, tuple):
        return tuple(map_leaves(item, change) for item in value)
    if isinstance(value, list):
        return [map_leaves(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_leaves(item, change) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_leaves(item, change) for item in (value.start, value.stop, value.step)))
    return change(value)


def map_refs(value: Any, change: Callable[[Ref], Any]) -> Any:
    """The argument with each Ref replaced; containers are rebuilt, all else is kept."""
    return map_leaves(value, lambda leaf: change(leaf) if isinstance(leaf, Ref) else leaf)


def with_leaves(graph: Graph, change: Callable[[Any], Any]) -> Graph:
    """The graph with the arguments of its ops, and of those in graphs that it holds, changed leaf by leaf. What
    higher-order ops take beside their operands is of torch's own making, and stays."""
    nodes = tuple(
        replace(node, args=map_leaves(node.args, change), kwargs=map_leaves(node.kwargs, change))
        if node.is_op and not is_higher_order(node.target)
        else node
        for node in graph.nodes
    )
    modules = {
        target: module if module.graph is None else replace(module, graph=with_leaves(module.graph, change))
        for target, module in graph.modules.items()
    }
    return graph if (nodes, modules) == (graph.nodes, graph.modules) else replace(graph, nodes=nodes, modules=modules)


def refs_in(value: Any) -> Iterator[str]:
    """Names of the nodes inside an argument."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, Size):
        yield from refs_in(value.items)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from refs_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from refs_in(item)
    elif isinstance(value, slice):
        yield from refs_in((value.start, value.stop, value.step))


def subset(graph: Graph, kept: Iterable[str]) -> Graph:
    """The graph of the ops in `kept` alone: cut values come in, live-outs go out.

    Time is linear in the ops kept and their arguments, not in the whole graph. Live-outs that are
    tensors become outputs; without any, the last op's value is the output, whatever it is.
    """
    chosen = sorted(graph.index[name] for name in kept)
    names = {graph.nodes[i].name for i in chosen}
    around: dict[str, int] = {}
    for i in chosen:
        for name in graph.nodes[i].refs():
            if name not in names:
                around[name] = graph.index[name]
    entry: list[Node] = []
    for name in sorted(around, key=around.__getitem__):
        node = graph.node(name)
        if node.is_op:
            node = Node(name, "placeholder", name, value=node.value, source=node.source)
        entry.append(node)
    body = [graph.nodes[i] for i in chosen]
    outputs = [n.name for n in body if _is_live(graph, n, names) and isinstance(n.value, TensorMeta)]
    if not outputs and body:
        outputs = [body[-1].name]
    end = Node("output", "output", "output", (tuple(Ref(name) for name in outputs),))
    used = {node.target for node in entry + body if node.op in ("get_attr", "call_module")}
    return Graph(
        nodes=(*entry, *body, end),
        attributes={k: v for k, v in graph.attributes.items() if k in used},
        modules={k: v for k, v in graph.modules.items() if any(t == k or t.startswith(k + ".") for t in used)},
    )


def _is_live(graph: Graph, node: Node, kept: set[str]) -> bool:
    users = graph.users[node.name]
    return not users or any(user not in kept for user in users)


def renamed(graph: Graph, names: dict[str, str]) -> Graph:
    """The graph with nodes renamed; names that are not in the mapping stay."""

    def change(ref: Ref) -> Ref:
        return Ref(names.get(ref.name, ref.name))

    nodes = tuple(
        replace(
            node,
            name=names.get(node.name, node.name),
            target=names.get(node.name, node.target) if node.op == "placeholder" else node.target,
            args=map_refs(node.args, change),
            kwargs=map_refs(node.kwargs, change),
        )
        for node in graph.nodes
    )
    return Graph(nodes, graph.attributes, graph.modules)


def tensor_keys(graph: Graph) -> list[str]:
    """Keys of the stored tensors that the graph's attributes and modules hold."""

    def of_module(module: Module) -> Iterator[str]:
        yield from module.parameters.values()
        yield from module.buffers.values()
        for child in module.children.values():
            yield from of_module(child)
        if module.graph is not None:
            yield from tensor_keys(module.graph)

    found = list(graph.attributes.values())
    for module in graph.modules.values():
        found += of_module(module)
    return list(dict.fromkeys(found))
