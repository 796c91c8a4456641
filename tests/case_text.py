"""A Case as a few lines of text, to be read and written by tests.

x: float32[2, 3]                            a tensor input; more as keywords: float32[2, 3](requires_grad=True)
n: 4 @ "s0"                                 a number; `@` gives its symbol, as it does that of a size: [4 @ "s0", 3]
y = torch.tanh(x)                           an op, with the shape and dtype of the first tensor that it reads
z: int64[2] = x.argmax(1)                   a method, and an op that says what it makes
body = get_attr(true_0)                     an attribute; graphs are given to `case_of` by name
return y, z
"""

from __future__ import annotations

import ast
from dataclasses import replace
from textwrap import dedent
from typing import Any

from case_samples import small_case

from minifier.data.case import Case, Drawn, Graph, Node, Ref, ScalarInput, TensorInput, TensorMeta
from minifier.data.case.graph import Module
from minifier.data.case.values import Constant, Imported, Scalar, Sequence_, Value, contiguous_stride


def case_of(text: str, *, bodies: dict[str, str] | None = None, **changes: Any) -> Case:
    """The Case with this graph, `small_case`'s in all else but `changes`. Its tensors are drawn."""
    graph = graph_of(text, bodies=bodies)
    inputs = tuple(
        TensorInput(node.name, node.value, Drawn("randn"))
        if isinstance(node.value, TensorMeta)
        else ScalarInput(node.name, node.value.value, node.value.symbol)
        for node in graph.placeholders
    )
    return replace(small_case(), **{"graph": graph, "inputs": inputs, **changes})


def graph_of(text: str, *, bodies: dict[str, str] | None = None) -> Graph:
    """The graph alone. `bodies` has the text of each graph that it holds."""
    nodes: dict[str, Node] = {}
    for line in ast.parse(dedent(text).replace("return ", "output = ")).body:
        node = _node(line, nodes)
        nodes[node.name] = node
    return Graph(tuple(nodes.values()), {}, {k: Module("", graph=graph_of(v)) for k, v in (bodies or {}).items()})


def show(case: Case | Graph) -> str:
    """The text of a graph, without what its ops make."""
    graph = case.graph if isinstance(case, Case) else case
    return "\n".join(map(_line, graph.nodes))


def _line(node: Node) -> str:
    if node.op == "placeholder":
        return f"{node.name}: {_shown_value(node.value)}"
    if node.op == "output":
        (results,) = node.args
        return "return " + (", ".join(map(_shown, results)) if isinstance(results, tuple) else _shown(results))
    if node.op == "get_attr":
        return f"{node.name} = get_attr({node.target})"
    args = [_shown(arg) for arg in node.args]
    function = f"{args.pop(0)}.{node.target}" if node.op == "call_method" else node.target
    return f"{node.name} = {function}({', '.join([*args, *(f'{k}={_shown(v)}' for k, v in node.kwargs.items())])})"


def _shown(value: Any) -> str:
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return f"torch.{value.name}" if isinstance(value, Constant) else repr(value)


def _shown_value(value: Value) -> str:
    if isinstance(value, Scalar):
        return f"{value.value!r}" + (f' @ "{value.symbol}"' if value.symbol else "")
    assert isinstance(value, TensorMeta)
    symbols = value.symbols or (None,) * len(value.shape)
    sizes = [f'{n} @ "{s}"' if s else str(n) for n, s in zip(value.shape, symbols, strict=True)]
    return f"{value.dtype}[{', '.join(sizes) or '()'}]"


def _node(line: ast.stmt, nodes: dict[str, Node]) -> Node:
    if isinstance(line, ast.AnnAssign):
        target, value, call = line.target, _value(line.annotation), line.value
    else:
        assert isinstance(line, ast.Assign)
        target, value, call = line.targets[0], None, line.value
    assert isinstance(target, ast.Name)
    if target.id == "output":
        results = _argument(call) if call is not None else ()
        single = isinstance(call, ast.Name)
        return Node("output", "output", "output", ((results,) if single else results,))
    if call is None:
        assert value is not None
        return Node(target.id, "placeholder", target.id, value=value)
    assert isinstance(call, ast.Call)
    function = ast.unparse(call.func)
    if function == "get_attr":
        return Node(target.id, "get_attr", ast.unparse(call.args[0]))
    args, op = tuple(map(_argument, call.args)), "call_function"
    owner, _, method = function.rpartition(".")
    if owner in nodes:
        args, op, function = (Ref(owner), *args), "call_method", method
    kwargs = {str(keyword.arg): _argument(keyword.value) for keyword in call.keywords}
    node = Node(target.id, op, function, args, kwargs)
    read = [nodes[name].value for name in node.refs()]
    return replace(node, value=value or next((v for v in read if isinstance(v, TensorMeta)), Scalar(0)))


def _argument(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return Ref(node.id)
    if isinstance(node, ast.Tuple):
        return tuple(map(_argument, node.elts))
    if isinstance(node, ast.List):
        return list(map(_argument, node.elts))
    if isinstance(node, ast.Attribute):
        name = ast.unparse(node)
        return Constant("dtype", node.attr) if name.startswith("torch.") else Imported(name)
    return ast.literal_eval(node)


def _size(node: ast.expr) -> tuple[Any, str | None]:
    """A number, and its symbol."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return ast.literal_eval(node.left), ast.literal_eval(node.right)
    return ast.literal_eval(node), None


def _value(node: ast.expr) -> Value:
    if isinstance(node, ast.Tuple):
        return Sequence_(tuple(map(_value, node.elts)))
    if isinstance(node, ast.Call):
        made = _value(node.func)
        assert isinstance(made, TensorMeta)
        return replace(made, **{str(each.arg): ast.literal_eval(each.value) for each in node.keywords})
    if not isinstance(node, ast.Subscript):
        return Scalar(*_size(node))
    sizes = [_size(each) for each in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])]
    shape = tuple(number for number, _ in sizes)
    symbols = tuple(symbol for _, symbol in sizes)
    return TensorMeta(shape, contiguous_stride(shape), ast.unparse(node.value), symbols=symbols if any(symbols) else ())
