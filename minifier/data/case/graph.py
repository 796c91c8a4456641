"""An FX graph as plain data, without torch: its nodes, its bodies, and what kinds of ops they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from minifier.data import fields, torch_names
from minifier.data.case.values import Imported, Opaque, Size, TensorMeta, Value
from minifier.data.fields import Defect, identifier, import_path, item_path, one_of, shown, within

UNKNOWN, NOTHING = Opaque("unknown"), Opaque("nothing")
OPS = frozenset({"call_function", "call_method", "call_module"})
_KINDS = one_of(OPS | {"placeholder", "get_attr", "output"})
_TARGETS = {"call_function": import_path, "call_method": identifier, "call_module": item_path, "get_attr": item_path}
_IN_PLACE_OPERATORS = {
    f"operator.{name}": 2
    for name in (
        *("delitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
        *("iand", "ior", "ixor", "ilshift", "irshift"),
    )
} | {"operator.setitem": 3}
_ARGUMENTS = {**_IN_PLACE_OPERATORS, "operator.getitem": 2}


@dataclass(frozen=True, slots=True)
class Ref:
    """A node used as an argument, by name."""

    name: fields.Identifier


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `target` is an importable path (call_function), or the name of a method or attribute.

    `source` is the line of code that made the op, `place` the file and line of the user's code: `model.py:14`.
    `origin` is Dynamo's first name for the op; for AOTAutograd's nodes, for the op behind the node. `modules`
    are the user's modules around the op, the outermost first: key, path in the model, the class's `module:qualname`.
    `changes` are the arguments that the op is known to write to, by position ("0") or name."""

    name: fields.Identifier
    op: Annotated[str, _KINDS]
    target: fields.Text
    args: tuple[Any, ...] = ()
    kwargs: dict[fields.Word, Any] = field(default_factory=dict)
    value: Value = UNKNOWN
    source: fields.Text = ""
    origin: fields.Text = ""
    modules: tuple[tuple[fields.Text, fields.Text, fields.Text], ...] = ()
    place: fields.Text = ""
    changes: tuple[fields.Text, ...] = ()

    def check(self) -> None:
        """Raise ValueError for a target that nothing can be called or read by, or arguments that do not suit it."""
        try:
            _TARGETS.get(self.op, lambda _: None)(self.target)
        except ValueError as error:
            raise within(".target", error) from None
        if self.op == "call_function" and not {".", ":"}.intersection(self.target):
            raise Defect(f"expected a function of a module, found {shown(self.target)}", ".target")
        number = 1 if self.op == "output" else _ARGUMENTS.get(self.target)
        if number is not None and len(self.args) != number:
            raise Defect(f"expected {number} arguments of {shown(self.target)}, found {len(self.args)}", ".args")
        if self.target in (torch_names.AUTOGRAD_FUNCTION, torch_names.REGION) and not (
            len(self.args) > 1 and isinstance(self.args[0], Ref)
        ):
            raise Defect("expected a subgraph and its arguments", ".args")
        if self.target == torch_names.LAUNCH:
            kernel, arguments = self.kwargs.get("kernel"), self.kwargs.get("arguments")
            if not isinstance(kernel, Imported) or not isinstance(arguments, dict) or "grid" not in self.kwargs:
                raise Defect("expected a kernel, its grid and its arguments", ".kwargs")

    @property
    def is_op(self) -> bool:
        """Whether the node is a call, not a placeholder, get_attr or output."""
        return self.op in OPS

    def refs(self) -> Iterator[str]:
        """Yield the names of the nodes that this node reads, in order, with repetition."""
        yield from refs_in(self.args)
        yield from refs_in(self.kwargs)

    def reading(self, values: Mapping[str, Any]) -> Node:
        """Return the node with these values in the places of the nodes of these names among its arguments."""
        if values.keys().isdisjoint(self.refs()):
            return self

        def change(ref: Ref) -> Any:
            return values.get(ref.name, ref)

        return replace(self, args=map_refs(self.args, change), kwargs=map_refs(self.kwargs, change))

    @property
    def module(self) -> tuple[str, str]:
        """The innermost of the user's modules around the op: its class, and its path from the variable of the model.

        ("", "") outside of modules; the path of the variable's own module is "".
        """
        if not self.modules:
            return "", ""
        _, path, class_path = self.modules[-1]
        return class_path.replace(":", ".").rpartition(".")[2], torch_names.VARIABLE_OF_MODEL.sub("", path)

    @property
    def short_target(self) -> str:
        """The last component of the target, without an overload: `tanh` for `torch.tanh`."""
        parts = self.target.replace(":", ".").split(".")
        if "ops" in parts[:2] and len(parts) > 4:
            return parts[-2]
        return parts[-1]


@dataclass(frozen=True)
class Module:
    """A module that the graph calls or holds: a class with its plain attributes and tensors, or a graph.

    Tensors are keys of the Case's attribute tensors; `children` are nested modules by name.
    """

    type: fields.ImportPathOrNone
    plain: dict[fields.Text, Any] = field(default_factory=dict)
    parameters: dict[fields.ItemPath, fields.Text] = field(default_factory=dict)
    buffers: dict[fields.ItemPath, fields.Text] = field(default_factory=dict)
    children: dict[fields.ItemPath, Module] = field(default_factory=dict)
    training: bool = False
    graph: Graph | None = None

    def check(self) -> None:
        """Raise ValueError for a module without a class and a graph."""
        if not self.type and self.graph is None:
            raise Defect("expected the class of the module", ".type")


@dataclass(frozen=True)
class Graph:
    """Nodes in order, and the targets of `get_attr` and `call_module`: keys of stored tensors, and modules."""

    nodes: tuple[Node, ...]
    attributes: dict[fields.ItemPath, fields.Text] = field(default_factory=dict)
    modules: dict[fields.ItemPath, Module] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ValueError unless each node reads earlier nodes, and an output alone ends the graph."""
        seen: set[str] = set()
        for position, node in enumerate(self.nodes):
            place = f".nodes[{position}]"
            if unknown := next((name for name in node.refs() if name not in seen), None):
                raise Defect(f"{shown(node.name)} reads {shown(unknown)}, which is not defined before it", place)
            if node.name in seen:
                raise Defect(f"two nodes are called {shown(node.name)}", f"{place}.name")
            if node.op == "call_module" and node.target not in self.modules:
                raise Defect(f"there is no module {shown(node.target)}", f"{place}.target")
            seen.add(node.name)
        ends = [position for position, node in enumerate(self.nodes) if node.op == "output"]
        if ends != [len(self.nodes) - 1]:
            raise Defect("the last node is not an output, or not the only one", ".nodes")

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each node by name."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """Names of the nodes that read each node, in order."""
        users: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in dict.fromkeys(node.refs()):
                users[name].append(node.name)
        return {name: tuple(readers) for name, readers in users.items()}

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
        """Return the node of that name. Raises KeyError."""
        return self.nodes[self.index[name]]

    @cached_property
    def input_names(self) -> dict[str, str]:
        """Dynamo-like names for inputs that were an op's result before a cut.

        Their own names would suggest a removed op to the backend."""
        cut = [n.name for n in self.placeholders if n.target == n.name and not n.name.startswith("l_")]
        cut = [name for name in cut if isinstance(self.node(name).value, TensorMeta)]
        return {name: f"l_v{i}_" for i, name in enumerate(cut)}

    @cached_property
    def free_names(self) -> dict[str, str]:
        """Names of nodes that are no op's target, apart from a number at the end; each with its op, "" for an input."""
        ops = {node.name: node.short_target if node.is_op else "" for node in self.nodes if node.op != "output"}
        taken, named = frozenset(ops.values()), self.input_names
        return {named.get(n, n): op for n, op in ops.items() if n.rstrip("0123456789").rstrip("_") not in taken}


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the argument with each leaf changed; containers are rebuilt."""
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
    """Return the argument with each Ref replaced; containers are rebuilt."""
    return map_leaves(value, lambda leaf: change(leaf) if isinstance(leaf, Ref) else leaf)


def without_lines(graph: Graph) -> Graph:
    """Return the graph without the user's lines of code and their places, in nested graphs too."""
    modules = {
        target: module if module.graph is None else replace(module, graph=without_lines(module.graph))
        for target, module in graph.modules.items()
    }
    return replace(graph, nodes=tuple(replace(n, source="", place="") for n in graph.nodes), modules=modules)


def with_leaves(graph: Graph, change: Callable[[Any], Any]) -> Graph:
    """Return the graph with each leaf of its ops' arguments changed, in nested graphs too.

    Higher-order ops stay: torch itself builds their other arguments. A launch of a Triton kernel takes no graph, and is
    changed, though torch counts it as a higher-order op."""
    nodes = tuple(
        replace(node, args=map_leaves(node.args, change), kwargs=map_leaves(node.kwargs, change))
        if node.is_op and (not node.target.startswith(torch_names.HIGHER_ORDER) or node.target == torch_names.LAUNCH)
        else node
        for node in graph.nodes
    )
    modules = {
        target: module if module.graph is None else replace(module, graph=with_leaves(module.graph, change))
        for target, module in graph.modules.items()
    }
    return graph if (nodes, modules) == (graph.nodes, graph.modules) else replace(graph, nodes=nodes, modules=modules)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what an argument holds, keys of dictionaries too, in order."""
    if isinstance(value, Size):
        value = value.items
    elif isinstance(value, dict):
        value = (*value, *value.values())
    elif isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def refs_in(value: Any) -> Iterator[str]:
    """Yield the names of the nodes inside an argument."""
    return (leaf.name for leaf in leaves(value) if isinstance(leaf, Ref))


EMPTY_GRAPH = Graph((Node("output", "output", "output", ((),)),))


def subset(graph: Graph, kept: Iterable[str]) -> Graph:
    """Return the graph of the ops in `kept`: cut values become inputs, live-out tensors become outputs.

    Without a live-out tensor, the last op's value is the output; of an op that returns None its first tensor. Takes
    linear time in the kept ops, not in the graph.
    """
    body = [graph.nodes[i] for i in sorted(graph.index[name] for name in kept)]
    names = {node.name for node in body}
    operands = {name for node in body for name in node.refs() if name not in names}
    entry: list[Node] = []
    for name in sorted(operands, key=graph.index.__getitem__):
        node = graph.node(name)
        if node.is_op:
            node = Node(name, "placeholder", name, value=node.value, source=node.source)
        entry.append(node)
    wrapped = wrapped_values(body) - set(graph.output.refs())
    tensors = [node for node in body if isinstance(node.value, TensorMeta) and node.name not in wrapped]
    live = [node for node in tensors if not graph.users[node.name] or not names.issuperset(graph.users[node.name])]
    returned = [_returned(graph, node, (*entry, *body), names) for node in live]
    outputs = list(dict.fromkeys(name for name in returned if name is not None))
    if not outputs and body:
        last = body[-1]
        shown_by = [name for name in last.refs() if isinstance(graph.node(name).value, TensorMeta)]
        outputs = shown_by[:1] if shown_by and last.value == NOTHING else [last.name]
    end = Node(graph.output.name, "output", "output", (tuple(Ref(name) for name in outputs),))
    used = {node.target for node in entry + body if node.op in ("get_attr", "call_module")}
    return Graph(
        nodes=(*entry, *body, end),
        attributes={k: v for k, v in graph.attributes.items() if k in used},
        modules={k: v for k, v in graph.modules.items() if any(t == k or t.startswith(k + ".") for t in used)},
    )


def _returned(graph: Graph, node: Node, nodes: tuple[Node, ...], kept: set[str]) -> str | None:
    """Return the output that shows the value of a live op, or None if another output does.

    Nothing reads the result of some in-place ops: the program goes on with a tensor of the same storage. A backend may
    treat an op without readers in its own way, so the op stays without readers.
    """
    if graph.users[node.name] or not is_in_place(node) or not isinstance(node.value, TensorMeta):
        return node.name
    storage, here = node.value.storage, graph.index[node.name]
    tensors = {other.name: other.value for other in nodes if other is not node and isinstance(other.value, TensorMeta)}
    aliases = [name for name, value in tensors.items() if storage is not None and value.storage == storage]
    if not aliases:
        return node.name
    is_read = any(graph.index[user] > here for name in aliases for user in graph.users[name] if user in kept)
    return None if is_read else aliases[0]


def renamed(graph: Graph, names: dict[str, str]) -> Graph:
    """Return the graph with nodes renamed; names outside the mapping stay."""
    refs = {name: Ref(new) for name, new in names.items()}
    nodes = tuple(
        replace(
            node.reading(refs),
            name=names.get(node.name, node.name),
            target=names.get(node.name, node.target) if node.op == "placeholder" else node.target,
        )
        for node in graph.nodes
    )
    return Graph(nodes, graph.attributes, graph.modules)


def tensor_keys(graph: Graph) -> list[str]:
    """Return the keys of the stored tensors in the graph's attributes and modules."""

    def of_module(module: Module) -> Iterator[str]:
        yield from module.parameters.values()
        yield from module.buffers.values()
        for child in module.children.values():
            yield from of_module(child)
        if module.graph is not None:
            yield from tensor_keys(module.graph)

    keys = list(graph.attributes.values())
    for module in graph.modules.values():
        keys += of_module(module)
    return list(dict.fromkeys(keys))


def is_in_place(node: Node) -> bool:
    """Tell whether the op changes an argument, by what was recorded of it, or by torch's naming conventions."""
    if node.changes:
        return True
    if node.target in _IN_PLACE_OPERATORS or "out" in node.kwargs or node.kwargs.get("inplace") is True:
        return True
    if node.target.startswith("operator."):  # and_, or_, not_ are not in place
        return False
    name = node.short_target
    return node.is_op and name.endswith("_") and not name.endswith("__") and name != "_"


BEGIN, END = torch_names.BEGIN_LEVEL | torch_names.BEGIN_CONTEXT, torch_names.END_LEVEL | torch_names.END_CONTEXT


def is_of_transform(node: Node) -> bool:
    """Whether the op is a transform's own: its levels, dual numbers and batch dimensions."""
    return node.is_op and node.target.startswith(torch_names.MODULES_OF_TRANSFORMS)


def wrapped_values(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the names of the nodes whose values a transform wraps. Wrapped values cannot be results of the graph."""
    wrapped, depth = set(), 0
    for node in nodes:
        target = node.short_target
        depth += (target in torch_names.BEGIN_LEVEL) - (target in torch_names.END_LEVEL)
        # The level is the second argument of these ops.
        left = target in torch_names.LEAVE_LEVEL and len(node.args) > 1 and node.args[1] == 1
        if depth > 0 and not left:
            wrapped.add(node.name)
    return frozenset(wrapped)
