"""A parsed script, and edits of it: which nodes are replaced by what."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing.module_statements import bound_by, dotted
from minifier.repro.source.statement_tree import mended, tree_of

CALL_OF_BASE = m.Expr(m.Call(func=m.Attribute(value=m.Call(func=m.Name("super")))))
EVALUATED_LATER = m.Lambda() | m.ListComp() | m.SetComp() | m.DictComp() | m.GeneratorExp()
_OPERATIONS = cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation, cst.IfExp, cst.Lambda
_LOOSE = cst.NamedExpr, cst.Yield, cst.Tuple  # need parentheses in an argument, too
_ANYTHING: m.MatchIfTrue[cst.CSTNode] = m.MatchIfTrue(lambda _: True)
_BACKEND_KEY = m.DictElement(key=m.SimpleString('"backend"') | m.SimpleString("'backend'"))

T = TypeVar("T")
Changes = Mapping[cst.CSTNode, Sequence[cst.CSTNode]]
"""What takes the place of each of these nodes of a module; nothing removes it."""


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """An edit of a script. `moved` has (name of a function, name of the function that has its statements then).

    `key` are texts that say what is edited, where they are known better than `Script.key` can.
    """

    changes: Changes
    moved: tuple[tuple[str, str], ...] = ()
    key: tuple[str, ...] = ()


class Script:
    """A parsed source, whose statements with a text in `frozen` no edit changes.

    Raises libcst.ParserSyntaxError for source that is not Python.
    """

    def __init__(self, source: str, frozen: Collection[str] = ()) -> None:
        self.source, self.frozen = source, frozenset(frozen)
        self.tree = tree_of(source, frozen)
        self.module = self.tree.module
        visitor = _Places(self.tree.frozen)
        self.module.visit(visitor)
        # Outer nodes first; without those of frozen statements, and of arguments that name a backend.
        self.nodes: Sequence[cst.CSTNode] = visitor.nodes
        self.parent = self.tree.parent_node
        self._begin, self._end = visitor.begin, visitor.end

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node; of an annotation without the colon or arrow, which libcst cannot write alone."""
        return self.module.code_for_node(node.annotation if isinstance(node, cst.Annotation) else node)

    def span(self, edit: Edit) -> list[tuple[int, int]]:
        """Return the ranges of numbered nodes that the edit replaces."""
        return [(self._begin[node], self._end[node]) for node in edit.changes]

    def is_allowed(self, edit: Edit) -> bool:
        """Return whether the edit changes nothing that is frozen; frozen statements may go."""
        return all(node in self._open or (not new and node in self.tree.frozen) for node, new in edit.changes.items())

    @cached_property
    def _open(self) -> frozenset[cst.CSTNode]:
        return frozenset(self.nodes)

    def line(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the innermost line, or compound statement, that has the node."""
        while not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.Module)):
            node = self.parent[node]
        return node

    def key(self, edit: Edit) -> tuple[str, ...]:
        """Return texts of the edit that stay equal while other lines change; none if libcst refuses the edit."""
        if edit.key:
            return edit.key
        texts: list[str] = []
        for old, new in edit.changes.items():
            line = self.line(old)
            around = self.code(line) if isinstance(line, cst.SimpleStatementLine) else ""
            codes = _or_none(lambda old=old, new=new: [self.code(node) for node in (old, *new)])  # type: ignore[misc]
            if codes is None:
                return ()
            texts += [around.strip(), *codes]
        return tuple(texts)

    def after(self, edits: Iterable[Edit]) -> str | None:
        """Return the source after edits that do not touch; None if libcst refuses them."""
        changes = {old: new for edit in edits for old, new in edit.changes.items()}
        around = set[cst.CSTNode]()
        for node in changes:
            outer = self.parent.get(node)
            while outer is not None and outer not in around:
                around.add(outer)
                outer = self.parent.get(outer)
        module = changed(self.module, changes, around)
        return _or_none(lambda: module.code) if isinstance(module, cst.Module) else None

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names that imports bind, but for those of `import *`."""
        return imported_names(self.module)

    @cached_property
    def modules(self) -> frozenset[str]:
        """The imported names of which attributes are read: a module is no value for an operand."""
        read = (node.value for node in self.nodes if isinstance(node, cst.Attribute))
        return self.imported & {node.value for node in read if isinstance(node, cst.Name)}

    @cached_property
    def compiling(self) -> frozenset[cst.Call]:
        """The calls of torch.compile, and others with `backend=`: without one of them nothing would be compiled."""
        return frozenset(node for node in self.nodes if isinstance(node, cst.Call) and _compiles(node))

    @cached_property
    def compiled(self) -> frozenset[cst.Arg]:
        """The arguments that these calls compile."""
        return frozenset(arg for call in self.compiling for arg in call.args[:1])

    def uses(self, name: str) -> list[cst.Name]:
        """Return the places that read a variable."""
        return uses_of(self.module, name)


class _Places(cst.CSTVisitor):
    def __init__(self, frozen: Collection[cst.CSTNode]) -> None:
        self.frozen = frozen
        self.nodes: list[cst.CSTNode] = []
        self.begin: dict[cst.CSTNode, int] = {}
        self.end: dict[cst.CSTNode, int] = {}
        self._frozen: cst.CSTNode | None = None

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.begin[node] = len(self.begin)
        is_frozen_line = isinstance(node, cst.SimpleStatementLine) and node.body[0] in self.frozen
        if self._frozen is None and (names_backend(node) or is_frozen_line or node in self.frozen):
            self._frozen = node
        if self._frozen is None:
            self.nodes.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self.end[original_node] = len(self.begin)
        if self._frozen is original_node:
            self._frozen = None


def names_backend(node: cst.CSTNode) -> bool:
    """Whether the node is an argument `backend=`, or may hold one: a `**` of a variable, or of a dict with that key."""
    if m.matches(node, _BACKEND_KEY):
        return True
    if not isinstance(node, cst.Arg):
        return False
    if node.star == "**":
        return isinstance(node.value, cst.Name) or bool(m.findall(node, _BACKEND_KEY))
    return node.keyword is not None and node.keyword.value == "backend"


def _compiles(call: cst.Call) -> bool:
    is_of_torch = m.matches(call.func, m.Attribute(attr=m.Name("compile"))) and dotted(call.func) != "re.compile"
    return is_of_torch or any(map(names_backend, call.args))


_TORCH_COMPILE = m.Attribute(m.Name("torch"), m.Name("compile"))
_OF_BACKEND = m.Arg(keyword=m.Name("backend") | m.Name("mode") | m.Name("options"))
_EAGER = cst.ensure_type(cst.parse_expression('f(backend="eager")'), cst.Call).args[0]


def with_eager_backend(source: str) -> str:
    """Return the source with `backend="eager"` in each call of torch.compile, and in others that name a backend.

    >>> with_eager_backend("f = torch.compile(f, mode='default')")
    'f = torch.compile(f, backend="eager")'
    """
    any_ = m.ZeroOrMore()
    compiling = m.Call(_TORCH_COMPILE) | m.Call(args=[any_, m.Arg(keyword=m.Name("backend")), any_])

    def in_eager(node: cst.CSTNode, _: object) -> cst.CSTNode:
        if isinstance(node, cst.Decorator):
            return node.with_changes(decorator=cst.Call(node.decorator, [_EAGER]))
        assert isinstance(node, cst.Call), "nothing else is found"
        return node.with_changes(args=[*(each for each in node.args if not m.matches(each, _OF_BACKEND)), _EAGER])

    changed = m.replace(cst.parse_module(source), compiling | m.Decorator(_TORCH_COMPILE), in_eager)
    assert isinstance(changed, cst.Module), "a module stays"
    return changed.code


def imported_names(module: cst.Module) -> frozenset[str]:
    """Return the names that imports bind, but for those of `import *`."""
    aliases = (node for node in m.findall(module, m.ImportAlias()) if isinstance(node, cst.ImportAlias))
    return frozenset(map(bound_by, aliases))


def uses_of(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the places that read the variable: neither an attribute nor a keyword, a parameter or a target."""
    visitor = _Uses(name)
    node.visit(visitor)
    return list(visitor.found)


class _Uses(cst.CSTVisitor):
    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[cst.Name, None] = {}

    def visit_Name(self, node: cst.Name) -> None:
        if node.value == self.name:
            self.found[node] = None

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        if node.default is not None:
            node.default.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Name)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.found.pop(original_node.name, None)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self.found.pop(original_node.name, None)

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False


def is_operation(value: cst.CSTNode) -> bool:
    """Return whether the expression needs parentheses within another expression."""
    return isinstance(value, (*_OPERATIONS, *_LOOSE)) and not value.lpar


def in_place_of(use: cst.CSTNode, value: cst.BaseExpression, parent: cst.CSTNode | None) -> cst.BaseExpression:
    """Return the value as it is written in the place of a node, with parentheses where it needs them."""
    is_whole_value = isinstance(parent, (cst.Return, cst.Expr, cst.Assign, cst.AnnAssign))
    is_whole_argument = isinstance(parent, cst.Arg) and not parent.star and not isinstance(value, _LOOSE)
    if is_whole_value or is_whole_argument or not is_operation(value):
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def with_values(node: cst.CSTNode, values: Mapping[str, cst.BaseExpression]) -> cst.CSTNode | None:
    """Return the node with values in the place of names, all at once; None if libcst refuses that."""
    parent = {child: each for each in m.findall(node, _ANYTHING) for child in each.children}
    uses = {use: value for name, value in values.items() for use in uses_of(node, name)}
    return changed(node, {use: [in_place_of(use, value, parent.get(use))] for use, value in uses.items()})


def changed(node: cst.CSTNode, changes: Changes, around: Collection[cst.CSTNode] | None = None) -> cst.CSTNode | None:
    """Return the node after the changes; None if libcst refuses them, as for a default ahead of a parameter.

    `around` are the nodes that have changed ones in them, if known: the others need not be visited.
    """
    result = _or_none(lambda: node.visit(_Changing(changes, around)))
    return result if isinstance(result, cst.CSTNode) else None


def _or_none(make: Callable[[], T]) -> T | None:
    """Return what a function of libcst makes; None if libcst refuses that by an error."""
    try:
        return make()
    except Exception as error:
        if not is_of_libcst(error):
            raise
        return None


class _Changing(cst.CSTTransformer):
    def __init__(self, changes: Changes, around: Collection[cst.CSTNode] | None) -> None:
        super().__init__()
        self.changes, self.around = changes, around

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.changes and (self.around is None or node in self.around)

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode] | cst.RemovalSentinel:
        nodes = self.changes.get(original_node)
        if nodes is None:
            return mended(original_node, updated_node)
        return nodes[0] if len(nodes) == 1 else cst.FlattenSentinel(nodes) if nodes else cst.RemoveFromParent()


def is_of_libcst(error: Exception) -> bool:
    """Whether libcst raised the error: it refuses edits with errors of many types, its own bugs among them."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] == cst.__name__


def blocks(script: Script) -> Iterator[cst.Module | cst.IndentedBlock]:
    """Yield the module and each indented block."""
    for node in script.nodes:
        if isinstance(node, (cst.Module, cst.IndentedBlock)):
            yield node
