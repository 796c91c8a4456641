"""Write a graph as the source of a Python function, higher-order ops as their public calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minifier.data.case import Case, TensorMeta
from minifier.data.case.graph import Graph, Node, Ref, map_refs, refs_in
from minifier.data.case.literals import OF_SCRIPT, index, literal, module_of
from minifier.data.case.values import Imported
from minifier.data.torch_names import (
    AUTOGRAD_FUNCTION,
    CHECKPOINT,
    COND,
    ENTER_AUTOCAST,
    ENTER_INFERENCE,
    EXIT_AUTOCAST,
    EXIT_INFERENCE,
    FLEX,
    LAUNCH,
    MAP,
    PUBLIC_MAP,
    PUBLIC_SCAN,
    REGION,
    SCAN,
    SET_GRAD,
    WHILE_LOOP,
)
from minifier.errors import NoRepro
from minifier.repro.emit.script_text import Names, script_name, under

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "imatmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_IN_PLACE = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=",
    "ipow": "**=", "iand": "&=", "ior": "|=", "ixor": "^=", "ilshift": "<<=", "irshift": ">>=",
}  # fmt: skip
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}
_ENTER, _EXIT = (ENTER_AUTOCAST, ENTER_INFERENCE), (EXIT_AUTOCAST, EXIT_INFERENCE)


@dataclass
class FunctionSource:
    """The source of a function."""

    parameters: list[str]
    body: list[str]  # lines
    imports: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # definitions that the function uses
    name_of: dict[str, str] = field(default_factory=dict)  # the Python name of each node


class _GraphWriter:
    def __init__(self, graph: Graph, names: Names, inputs: dict[str, str]) -> None:
        self.graph, self.names = graph, names
        self.name_of = dict(inputs)
        self.imports: dict[str, None] = {}
        self.before: list[str] = []
        self.contexts = _contexts(graph)
        self.depth = 0
        self.subgraph_names: dict[str, str] = {}  # by get_attr target
        self.lines: list[tuple[int, str]] = []  # (depth, text)

    def ref(self, ref: Ref) -> str:
        return self.name_of[ref.name]

    def value(self, value: Any) -> str:
        self._import_all(value)
        return literal(value, self.ref)

    def _import_all(self, value: Any) -> None:
        if isinstance(value, Imported):
            if not value.path.startswith(OF_SCRIPT):
                self.imports[f"import {module_of(value.path)}"] = None
        elif isinstance(value, (tuple, list)):
            for item in value:
                self._import_all(item)
        elif isinstance(value, dict):
            self._import_all(list(value.values()))

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{key}={self.value(item)}" for key, item in kwargs.items())])

    def function(self, path: str) -> str:
        """Return the function's name in the script, and record the needed import."""
        if path.startswith(OF_SCRIPT):
            return script_name(path.removeprefix(OF_SCRIPT))
        if ":" in path:
            module, _, name = path.partition(":")
            self.imports[f"from {module} import {name.partition('.')[0]}"] = None
            return name
        top = path.partition(".")[0]
        if top != "torch":
            self.imports[f"import {path.rpartition('.')[0]}"] = None
        return path

    def line(self, text: str) -> None:
        """Append a line at the current depth."""
        self.lines.append((self.depth, text))

    def statement(self, node: Node) -> None:
        """Append the line for an op."""
        if node.name in self.contexts:
            context = self.contexts[node.name]
            if context is not None:
                self.line(f"with {context}:")
            self.depth += 1 if context is not None else -1
            self.name_of[node.name] = "None"
            return
        short = node.target.rpartition(".")[2] if node.target.startswith("operator.") else ""
        if short == "setitem":
            container, key, value = node.args
            self.line(f"{self.value(container)}[{index(key, self.ref)}] = {self.value(value)}")
            self.name_of[node.name] = self.value(container)
        elif short in _IN_PLACE and isinstance(node.args[0], Ref):
            self.line(f"{self.value(node.args[0])} {_IN_PLACE[short]} {self.value(node.args[1])}")
            self.name_of[node.name] = self.value(node.args[0])
        else:
            text = self.expression(node, short)
            if not self.graph.users[node.name]:  # called for its effect
                self.line(text)
                return
            self.name_of[node.name] = self.names.for_value()
            self.line(f"{self.name_of[node.name]} = {text}")

    def expression(self, node: Node, short: str) -> str:
        args = node.args
        if short == "getitem":
            return f"{self.value(args[0])}[{index(args[1], self.ref)}]"
        if short in _BINARY and len(args) == 2 and not node.kwargs:
            left, right = (f"({t})" if t.startswith("-") else t for t in map(self.value, args))
            return f"{left} {_BINARY[short]} {right}"
        if short in _UNARY and len(args) == 1:
            return f"{_UNARY[short]}{self.value(args[0])}"
        if node.op == "call_method" and args and isinstance(args[0], Ref):
            return f"{self.value(args[0])}.{node.target}({self.arguments(args[1:], node.kwargs)})"
        if node.op == "call_method":
            return f"torch.Tensor.{node.target}({self.arguments(args, node.kwargs)})"
        if node.op == "call_module":  # Dynamo makes none
            raise NoRepro(f"the graph calls the module {node.target}, which cannot be written as source yet")
        if node.target == AUTOGRAD_FUNCTION:
            return f"{self.value(args[0])}.apply({self.arguments(args[2:], {})})"
        if node.target == REGION:
            return f"{self.value(args[0])}({self.arguments(args[2:], {})})"
        if node.target == LAUNCH:
            kernel, grid = self.function(node.kwargs["kernel"].path), self.value(node.kwargs["grid"])
            return f"{kernel}[{grid}]({self.arguments((), node.kwargs['arguments'])})"
        node = public_call(node)
        return f"{self.function(node.target)}({self.arguments(node.args, node.kwargs)})"

    def nested(self, node: Node) -> None:
        """Write the subgraph of a higher-order op as a function, or as part of a class."""
        module = self.graph.modules.get(node.target)
        if module is None or module.graph is None:
            raise NoRepro(f"the graph holds {node.target}, which cannot be written as source yet")
        if node.target in self.subgraph_names:  # written for an earlier get_attr of the same target
            self.name_of[node.name] = self.subgraph_names[node.target]
            return
        users = consumers(self.graph, node)
        is_class = any(user.target == AUTOGRAD_FUNCTION for user in users)
        name = self.subgraph_names[node.target] = self.name_of[node.name] = self._short_name(node.target, is_class)
        if is_class:
            if node.name == users[0].args[0].name:
                self.before.append(autograd_function(self.graph, users[0], name, self._method))
            return
        inner = self._inner(module.graph, unpacked=not needs_tuple(self.graph, node))
        decorator = "@torch.compiler.nested_compile_region\n" if any(user.target == REGION for user in users) else ""
        self.before.append(decorator + under(f"def {name}({', '.join(inner.parameters)}):", inner.body))

    def _short_name(self, target: str, is_class: bool) -> str:
        target = target.replace(".", "_")
        short = target.removesuffix("_0")  # torch numbers a single subgraph too
        name = target if f"{short}_1" in self.graph.modules else short
        name = name.replace("fwd_body", "Function") if is_class else name
        return target if name in self.name_of.values() else name

    def _inner(self, graph: Graph, *, unpacked: bool) -> FunctionSource:
        names = Names(self.name_of.values())
        inner = function_source(graph, names, {}, unpacked=unpacked)
        self.before += inner.before
        self.imports.update(dict.fromkeys(inner.imports))
        return inner

    def _method(self, graph: Graph) -> FunctionSource:
        return self._inner(graph, unpacked=False)


def function_source(graph: Graph, names: Names, inputs: dict[str, str], *, unpacked: bool = True) -> FunctionSource:
    """Return the graph's function.

    `inputs` names placeholders that the caller has named already. `unpacked` returns the value of a single-element
    tuple instead of the tuple.

    Raises NoRepro if a node cannot be written as source.
    """
    writer = _GraphWriter(graph, names, inputs)
    for node in graph.nodes:
        if node.op == "placeholder" and node.name not in inputs:
            writer.name_of[node.name] = names.for_value()
        elif node.op == "get_attr":
            writer.nested(node)
        elif node.is_op:
            writer.statement(node)
    (result,) = graph.output.args
    result = tuple(result) if isinstance(result, list) else result
    text = literal(result, writer.ref)
    if unpacked and isinstance(result, tuple) and len(result) == 1:
        text = literal(result[0], writer.ref)
    elif isinstance(result, tuple) and len(result) > 1:
        text = text[1:-1]
    lines = _indented(writer.lines)
    if lines and lines[-1].startswith(f"{text} = "):  # write `return torch.tanh(x)`, without a last assignment
        lines[-1:] = [f"return {lines[-1].removeprefix(f'{text} = ')}"]
    else:
        lines.append(f"return {text}")
    parameters = [writer.name_of[node.name] for node in graph.placeholders]
    return FunctionSource(parameters, lines, list(writer.imports), writer.before, writer.name_of)


def _contexts(graph: Graph) -> dict[str, str | None]:
    """Map each op that opens a `with` block to the block's context, and each op that closes a block to None.

    If blocks overlap or stay open, return an empty dict: all these ops are then written as calls.
    """
    contexts: dict[str, str | None] = {}
    open_ops: list[Node] = []
    for node in graph.ops:
        if node.target in _ENTER:
            open_ops.append(node)
        elif node.target in _EXIT:
            if not open_ops or node.args != (Ref(open_ops[-1].name),):
                return {}
            opening = open_ops.pop()
            contexts |= {opening.name: _context(opening), node.name: None}
        elif node.target == SET_GRAD:
            if open_ops and open_ops[-1].target == SET_GRAD and open_ops[-1].args != node.args:
                opening = open_ops.pop()
                contexts |= {opening.name: _context(opening), node.name: None}
            else:
                open_ops.append(node)
    return {} if open_ops else contexts


def _context(node: Node) -> str:
    if node.target == ENTER_INFERENCE:
        return f"torch.inference_mode({'' if node.args[0] else 'False'})"
    if node.target != ENTER_AUTOCAST:
        return "torch.enable_grad()" if node.args[0] else "torch.no_grad()"
    device, dtype, enabled = (*node.args, None, None)[:3]  # the 4th, whether autocast caches, is off under Dynamo
    arguments = [literal(device)]
    arguments += [f"dtype={literal(dtype)}"] if dtype is not None else []
    arguments += ["enabled=False"] if enabled is False else []
    return f"torch.autocast({', '.join(arguments)})"


def _indented(lines: Sequence[tuple[int, str]]) -> list[str]:
    """Indent (depth, line) pairs; an empty `with` block gets a `pass`."""
    text: list[str] = []
    for i, (depth, line) in enumerate(lines):
        text.append("    " * depth + line)
        if line.startswith("with ") and (i + 1 == len(lines) or lines[i + 1][0] <= depth):
            text.append("    " * (depth + 1) + "pass")
    return text


_PUBLIC_NAMES = {COND: "torch.cond", CHECKPOINT: "torch.utils.checkpoint:checkpoint"}


def public_call(node: Node) -> Node:
    """Return the public function's call.

    `map` and `scan` of a single tensor take this tensor, no list; `while_loop` takes nothing but its carried values.
    """
    if node.target == WHILE_LOOP and len(node.args) == 4 and not node.args[3]:
        return replace(node, target="torch.while_loop", args=node.args[:3])
    if node.target == MAP and len(node.args) == 3 and len(node.args[1]) == 1:
        body, (over,), others = node.args
        return replace(node, target=PUBLIC_MAP, args=(body, over, *others))
    if node.target == SCAN and [len(tensors) for tensors in node.args[1:]] == [1, 1, 0]:
        body, (first,), (over,), _ = node.args
        return replace(node, target=PUBLIC_SCAN, args=(body, first, over))
    return replace(node, target=_PUBLIC_NAMES.get(node.target, node.target))


def consumers(graph: Graph, get_attr: Node) -> list[Node]:
    """Return the higher-order ops that take the subgraph of a get_attr node."""
    return [graph.node(name) for name in graph.users[get_attr.name]]


def needs_tuple(graph: Graph, get_attr: Node) -> bool:
    """Tell whether the subgraph must return a single result in a tuple.

    A `cond` needs a tuple only if later ops index its result. Other higher-order ops always need a tuple.
    """
    ops = consumers(graph, get_attr)
    if any(op.target != COND for op in ops):
        return True
    return any(graph.node(user).target == "operator.getitem" for op in ops for user in graph.users[op.name])


def _without_grad_mode(graph: Graph) -> Graph:
    """Drop the grad mode that torch sets around the body of an autograd function."""
    ops = graph.ops
    if len(ops) < 2 or not all(op.target == SET_GRAD for op in (ops[0], ops[-1])):
        return graph
    switches = {ops[0].name, ops[-1].name}
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.name not in switches))


def _with_output(graph: Graph, results: Any) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:-1], replace(graph.output, args=(results,))))


def autograd_function(graph: Graph, call: Node, name: str, method: Callable[[Graph], FunctionSource]) -> str:
    """Return the class of an autograd function. Raises NoRepro if the function saves anything but tensors."""
    forward, backward = (graph.modules[graph.node(ref.name).target].graph for ref in call.args[:2])
    assert forward is not None and backward is not None
    (results,) = forward.output.args
    outputs, saved = results
    if not isinstance(outputs, tuple) or any(not isinstance(value, Ref) for value in saved):
        raise NoRepro("an autograd function of the graph keeps more than tensors, which is not written yet")
    if call.kwargs.get("non_differentiable_idx") or len(call.kwargs.get("saved_for_backward_idx", saved)) < len(saved):
        raise NoRepro("an autograd function of the graph keeps values beside its context, which is not written yet")
    forward_method = method(_with_output(_without_grad_mode(forward), outputs))
    backward_method = method(_without_grad_mode(backward))
    saved_names = [forward_method.name_of[ref.name] for ref in saved]
    grads = backward_method.parameters[: len(outputs)]
    restored = backward_method.parameters[len(outputs) :]
    lines = [
        f"class {name}(torch.autograd.Function):",
        "    @staticmethod",
        f"    def forward({', '.join(['ctx', *forward_method.parameters])}):",
        *(f"        {line}" for line in forward_method.body[:-1]),
        *([f"        ctx.save_for_backward({', '.join(saved_names)})"] if saved_names else []),
        f"        {forward_method.body[-1]}",
        "",
        "    @staticmethod",
        f"    def backward({', '.join(['ctx', *grads])}):",
        *([f"        {_unpacked(restored)} = ctx.saved_tensors"] if restored else []),
        *(f"        {line}" for line in backward_method.body),
    ]
    return "\n".join(lines)


def _unpacked(names: list[str]) -> str:
    return ", ".join(names) if len(names) > 1 else f"({names[0]},)"


_PUBLIC = "torch.nn.attention.flex_attention:flex_attention"
_NO_MASK_BLOCK_SIZE = 1 << 30  # torch represents "no mask" as a mask with this block size
_DEFAULT_KERNEL_OPTIONS = {
    "BACKEND": "AUTO",
    "PRESCALE_QK": False,
    "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False,
    "WRITE_DQ": True,
    "OUTPUT_MAX": False,
}


def _public_call(graph: Graph, node: Node) -> Node | None:
    """Return the call of the public function. None for unsupported arguments: a block mask, or tensors captured by
    the score function."""
    if len(node.args) != 9 or node.kwargs:
        return None
    query, key, value, score_mod, mask, scale, options, score_tensors, mask_tensors = node.args
    if score_tensors or mask_tensors or not isinstance(mask, tuple) or _NO_MASK_BLOCK_SIZE not in mask:
        return None
    kwargs: dict[str, Any] = {}
    if not _is_identity(graph, score_mod):
        kwargs["score_mod"] = score_mod
    size = graph.node(query.name).value if isinstance(query, Ref) else None
    if not (isinstance(size, TensorMeta) and size.shape and math.isclose(scale, size.shape[-1] ** -0.5)):
        kwargs["scale"] = scale
    heads = [graph.node(ref.name).value for ref in (query, key) if isinstance(ref, Ref)]
    if len({value.shape[1] for value in heads if isinstance(value, TensorMeta)}) > 1:
        kwargs["enable_gqa"] = True
    if options.get("OUTPUT_LOGSUMEXP"):
        kwargs["return_lse"] = True
    user_options = {k: v for k, v in options.items() if k != "OUTPUT_LOGSUMEXP" and _DEFAULT_KERNEL_OPTIONS.get(k) != v}
    if user_options:
        kwargs["kernel_options"] = user_options
    return replace(node, target=_PUBLIC, args=(query, key, value), kwargs=kwargs)


def _is_identity(graph: Graph, score_mod: Any) -> bool:
    """Whether the score function returns the score unchanged."""
    module = graph.modules.get(graph.node(score_mod.name).target) if isinstance(score_mod, Ref) else None
    if module is None or module.graph is None or module.graph.ops:
        return False
    return next(refs_in(module.graph.output.args), None) == module.graph.nodes[0].name


def _is_first_of(node: Node, names: set[str]) -> bool:
    return node.target == "operator.getitem" and node.args[0].name in names and node.args[1] == 0


def with_public_flex(case: Case) -> Case:
    """Return the Case with calls of the public flex_attention, and without inputs that only the operator took."""
    public_calls = {n.name: call for n in case.graph.ops if n.target == FLEX and (call := _public_call(case.graph, n))}
    if not public_calls:
        return case
    no_tuple = {name for name, call in public_calls.items() if "return_lse" not in call.kwargs}  # returns one tensor
    aliases = {node.name: node.args[0].name for node in case.graph.ops if _is_first_of(node, no_tuple)}
    nodes = [public_calls.get(node.name, node) for node in case.graph.nodes if node.name not in aliases]

    def renamed(ref: Ref) -> Ref:
        return Ref(aliases.get(ref.name, ref.name))

    graph = replace(
        case.graph,
        nodes=tuple(replace(n, args=map_refs(n.args, renamed), kwargs=map_refs(n.kwargs, renamed)) for n in nodes),
    )
    used = {name for node in graph.nodes for name in node.refs()}
    used_nodes = tuple(n for n in graph.nodes if n.op not in ("placeholder", "get_attr") or n.name in used)
    names = {node.name for node in used_nodes}
    inputs = tuple(i for i in case.inputs if i.name in names)
    return replace(case, graph=replace(graph, nodes=used_nodes), inputs=inputs)
