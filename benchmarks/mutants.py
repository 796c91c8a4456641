"""Makes mutants of a Python module: copies of its source, each with one small mistake.

Mistakes: a comparison shifted or turned round; `and` and `or`, `any` and `all`, `min` and `max`, or two kinds of
arithmetic swapped; `not` dropped; a number one off; a bool or a string changed; a condition always true or false; a
bound of a slice dropped; None returned; a statement left out (a call, an assignment to an attribute or item,
`continue`, `break`, `yield`).

Left alone: annotations and type aliases, docstrings, decorators, `__all__`, assertions, messages (strings with a blank,
f-strings, all strings of a `raise`), and `strict=` of zip.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake. `function` is the dotted name of the outermost function it is in, "" where importing the module runs
    it. `lines` are those of its statement, `text` is the line where the mistake begins. `start` and `end` are offsets
    in the UTF-8 source of what `new` replaces."""

    path: str
    function: str
    line: int
    lines: tuple[int, ...]
    text: str
    start: int
    end: int
    old: str
    new: str

    def source(self, text: str) -> str:
        """The module with the mistake in it."""
        data = text.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()

    @property
    def diff(self) -> str:
        """The mistake in one line."""
        return f"{' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def mutants_of(path: str, text: str) -> list[Mutant]:
    """All mutants of a module, in the order of the source."""
    return sorted(_Maker(path, text).made, key=lambda mutant: (mutant.start, mutant.end, mutant.new))


class _Maker(ast.NodeVisitor):
    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._data = text.encode()
        self._offsets = [0]
        for line in self._data.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._scopes: list[str] = []
        self._function = ""
        self._statement: tuple[int, ...] = ()
        self.made: list[Mutant] = []
        self.visit(ast.parse(text))

    def _add(self, node: ast.expr | ast.stmt, new: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._offsets[node.lineno - 1] + node.col_offset
        end = self._offsets[node.end_lineno - 1] + node.end_col_offset
        old = self._data[start:end].decode()
        text = self._data[self._offsets[node.lineno - 1] : self._offsets[node.lineno]].decode().strip()
        place = (self._path, self._function, node.lineno, self._statement, text)
        self.made.append(Mutant(*place, start, end, old, new))

    def _change(self, node: ast.expr, made: ast.expr) -> None:
        self._add(node, f"({ast.unparse(made)})")

    def visit(self, node: ast.AST) -> None:
        """Makes the mutants of a node, then of what is in it."""
        if isinstance(node, ast.stmt):
            self._statement = _header_lines(node)
        super().visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            before = self._statement
            self.visit(child)
            self._statement = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._all([*node.args.defaults, *(default for default in node.args.kw_defaults if default)])
        outer, before = self._function, self._statement
        self._scopes.append(node.name)
        self._function = outer or ".".join(self._scopes)
        self._all(_without_docstring(node.body))
        self._scopes.pop()
        self._function, self._statement = outer, before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scopes.append(node.name)
        self._all(_without_docstring(node.body))
        self._scopes.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._all(_without_docstring(node.body))

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:  # of a lambda
        self._all([*node.defaults, *(default for default in node.kw_defaults if default)])

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assign(self, node: ast.Assign) -> None:
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
        if name == "__all__" or (not self._function and _is_type_name(name)):
            return
        if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self._add(node, "pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None or "TypeAlias" in ast.unparse(node.annotation):
            return
        if isinstance(node.target, (ast.Attribute, ast.Subscript)):
            self._add(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "pass")
        swapped = _ARITHMETIC.get(type(node.op))
        if swapped is not None:
            self._add(node, ast.unparse(ast.AugAssign(node.target, swapped(), node.value)))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):  # a docstring of what stands above it
            return
        self._add(node, "pass")
        self.generic_visit(node)

    def _drop(self, node: ast.stmt) -> None:
        self._add(node, "pass")

    visit_Continue = visit_Break = visit_Delete = _drop

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node, "return None")
        self.generic_visit(node)

    def _condition(self, test: ast.expr, *values: str) -> None:
        if not isinstance(test, ast.Constant):
            for value in values:
                self._add(test, value)

    def visit_If(self, node: ast.If) -> None:
        self._condition(node.test, "True", "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test, "True", "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test, "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test, "True", "False")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for i, op in enumerate(node.ops):
            for swapped in _COMPARISONS[type(op)]:
                ops = [*node.ops[:i], swapped(), *node.ops[i + 1 :]]
                self._change(node, ast.Compare(node.left, ops, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._change(node, ast.BoolOp(swapped, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self._change(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        swapped = _ARITHMETIC.get(type(node.op))
        if swapped is not None:
            self._change(node, ast.BinOp(node.left, swapped(), node.right))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            self._add(node.func, _NAMES[node.func.id])
        self._all([node.func, *node.args])
        self._all(keyword.value for keyword in node.keywords if keyword.arg != "strict")

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None:
                self._add(bound, "None")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, str(not value))
        elif isinstance(value, (int, float)):
            self._add(node, repr(value + 1))
            self._add(node, f"({value - 1!r})")
        elif isinstance(value, str) and " " not in value:
            self._add(node, repr(f"XX{value}"))


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_docstring else body


def _is_type_name(name: str) -> bool:
    return name[:1].isupper() and not name.isupper()


def _header_lines(node: ast.stmt) -> tuple[int, ...]:
    """The lines of a statement without the statements in it."""
    inner: Iterator[int] = (child.lineno for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
    last = min(inner, default=(node.end_lineno or node.lineno) + 1)
    return tuple(range(node.lineno, max(last, node.lineno + 1)))
