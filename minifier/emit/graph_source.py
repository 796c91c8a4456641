"""Write a graph as the source of a Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minifier.case.graph import Graph, Node, Ref
from minifier.case.literals import OF_SCRIPT, index, literal, module_of
from minifier.case.values import Imported
from minifier.emit.definitions import script_name
from minifier.emit.higher import Method, autograd_function, consumers, needs_tuple, public_call
from minifier.emit.naming import Names
from minifier.errors import NoRepro
from minifier.interfaces.names import (
    AUTOGRAD_FUNCTION,
    ENTER_AUTOCAST,
    ENTER_INFERENCE,
    EXIT_AUTOCAST,
    EXIT_INFERENCE,
    LAUNCH,
    REGION,
    SET_GRAD,
)

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
    def __init__(
        self, graph: Graph, names: Names, inputs: dict[str, str], modules: Callable[[str], str], plain_aten: bool
    ) -> None:
        self.graph, self.names, self.modules, self.plain_aten = graph, names, modules, plain_aten
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
        if self.plain_aten and path.startswith("torch.ops.aten."):
            path = path.removesuffix(".default")
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
        if node.op == "call_module":
            return f"{self.modules(node.target)}({self.arguments(args, node.kwargs)})"
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
        body = "\n".join(f"    {line}" for line in inner.body)
        decorator = "@torch.compiler.nested_compile_region\n" if any(user.target == REGION for user in users) else ""
        self.before.append(f"{decorator}def {name}({', '.join(inner.parameters)}):\n{body}")

    def _short_name(self, target: str, is_class: bool) -> str:
        target = target.replace(".", "_")
        short = target.removesuffix("_0")  # torch numbers a single subgraph too
        name = target if f"{short}_1" in self.graph.modules else short
        name = name.replace("fwd_body", "Function") if is_class else name
        return target if name in self.name_of.values() else name

    def _inner(self, graph: Graph, *, unpacked: bool) -> FunctionSource:
        names = Names(self.name_of.values())
        inner = function_source(graph, names, {}, self.modules, plain_aten=self.plain_aten, unpacked=unpacked)
        self.before += inner.before
        self.imports.update(dict.fromkeys(inner.imports))
        return inner

    def _method(self, graph: Graph) -> Method:
        inner = self._inner(graph, unpacked=False)
        return Method(inner.parameters, inner.body, inner.name_of)


def function_source(
    graph: Graph,
    names: Names,
    inputs: dict[str, str],
    modules: Callable[[str], str],
    *,
    plain_aten: bool = False,
    unpacked: bool = True,
) -> FunctionSource:
    """Return the graph's function.

    `inputs` names placeholders that the caller has named already. `modules(target)` returns the name of a module that
    the graph calls. `plain_aten` shortens `torch.ops.aten.tanh.default` to `torch.ops.aten.tanh`, for ATen graphs.
    `unpacked` returns the value of a single-element tuple instead of the tuple.

    Raises NoRepro if a node cannot be written as source.
    """
    writer = _GraphWriter(graph, names, inputs, modules, plain_aten)
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
