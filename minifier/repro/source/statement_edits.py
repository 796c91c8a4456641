"""Edits that simplify statements without removing them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing.module_statements import bound_by, dotted, root
from minifier.repro.source.patches import Changes, Edited, applied, replaced

_IN_PARENTHESES = m.OneOf(*(each(lpar=[m.AtLeastN(n=1)]) for each in (m.BinaryOperation, m.Call, m.Name, m.Attribute)))
_COMPOUND = (cst.For, cst.While, cst.If, cst.With, cst.Try)


def _unwrapped(node: cst.CSTNode) -> Iterator[list[cst.BaseStatement]]:
    """Yield what may replace a `for`, `while`, `if`, `with` or `try`: its body, in a `for` also for a single item."""
    if not isinstance(node, _COMPOUND) or not isinstance(node.body, cst.IndentedBlock):
        return
    body = list(node.body.body)
    yield body
    if isinstance(node, cst.For):
        target = cst.AssignTarget(node.target)
        yield from ([cst.SimpleStatementLine([cst.Assign([target], item)]), *body] for item in _items(node.iter))


def _items(iterated: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the last and the first item of a list or tuple, 0 for `range(...)`, `xs[0]` for `xs`, else nothing.

    The items of `zip(xs, ys)` are `xs[0], ys[0]`.
    """
    if isinstance(iterated, (cst.List, cst.Tuple)):
        values = [each.value for each in iterated.elements if isinstance(each, cst.Element)]
        return list(dict.fromkeys([*values[-1:], *values[:1]]))
    if isinstance(iterated, (cst.Name, cst.Attribute)):
        return [_first_of(iterated)]
    if m.matches(iterated, m.Call(func=m.Name("zip"))) and isinstance(iterated, cst.Call):
        return [cst.Tuple([cst.Element(_first_of(arg.value)) for arg in iterated.args], lpar=[], rpar=[])]
    return [cst.Integer("0")] if m.matches(iterated, m.Call(func=m.Name("range"))) else []


def _first_of(value: cst.BaseExpression) -> cst.BaseExpression:
    return cst.Subscript(value, [cst.SubscriptElement(cst.Index(cst.Integer("0")))])


def _operands(
    node: cst.CSTNode, modules: Collection[str], compiling: Collection[cst.CSTNode]
) -> Iterator[cst.BaseExpression]:
    """Yield the subexpressions that may replace an expression."""
    if isinstance(node, cst.Call):
        if node in compiling or node.func in compiling:  # without it nothing would be compiled
            return
        if m.matches(node.func, m.Attribute(value=m.Call(func=m.Name("super")))):
            return
        yield from (arg.value for arg in node.args)
        if isinstance(node.func, cst.Attribute) and not _is_of_module(node.func.value, modules):
            yield node.func.value
    elif isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
        yield from (node.left, node.right)
    elif isinstance(node, cst.Comparison):
        yield from (node.left, *(target.comparator for target in node.comparisons))
    elif isinstance(node, cst.UnaryOperation):
        yield node.expression
    elif isinstance(node, cst.Subscript):
        if isinstance(node.value, (cst.Tuple, cst.List)):
            yield from (element.value for element in node.value.elements if isinstance(element, cst.Element))
        yield node.value
        if isinstance(node.value, cst.Call) and isinstance(node.value.func, cst.Attribute):  # `x` of `x.chunk(2)[0]`
            yield node.value.func.value
        yield from (each.slice.value for each in node.slice if isinstance(each.slice, cst.Index))
    elif isinstance(node, cst.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        yield from (element.value for element in node.elements if isinstance(element, cst.Element))
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield node.for_in.iter
    elif isinstance(node, cst.FormattedString):
        yield from (part.expression for part in node.parts if isinstance(part, cst.FormattedStringExpression))


def imported_names(module: cst.Module) -> frozenset[str]:
    """Return the names that imports bind, but for those of `import *`."""
    aliases = (node for node in m.findall(module, m.ImportAlias()) if isinstance(node, cst.ImportAlias))
    return frozenset(map(bound_by, aliases))


def _modules(module: cst.Module) -> frozenset[str]:
    """Return the imported names of which attributes are read: a module is no value for an operand."""
    names = imported_names(module)
    read = (node.value for node in m.findall(module, m.Attribute(value=m.Name())) if isinstance(node, cst.Attribute))
    return frozenset(names & {name.value for name in read if isinstance(name, cst.Name)})


def _may_replace(operand: cst.BaseExpression, modules: Collection[str]) -> bool:
    """Return whether an operand may replace its expression: 1 is tried for each anyway, a module is no value."""
    if isinstance(operand, cst.Name):
        return operand.value not in modules and operand.value != "self"
    if isinstance(operand, cst.UnaryOperation):
        operand = operand.expression
    return not isinstance(operand, (cst.BaseNumber, cst.SimpleString))


def unpacked(module: cst.Module) -> set[cst.CSTNode]:
    """Return the targets and values of assignments to several names: their numbers of elements have to agree."""
    nodes = m.findall(module, m.Assign(targets=[m.AssignTarget(target=m.Tuple() | m.List())]))
    return {part for node in nodes if isinstance(node, cst.Assign) for part in (node.targets[0].target, node.value)}


def _is_of_module(node: cst.BaseExpression, modules: Collection[str]) -> bool:
    """Return whether the expression is a module, or a dotted name in a module."""
    return dotted(node).partition(".")[0] in modules


_BACKEND_KEY = m.DictElement(key=m.SimpleString('"backend"') | m.SimpleString("'backend'"))


def names_backend(node: cst.CSTNode) -> bool:
    """Whether the node is an argument `backend=`, or may hold one: a `**` of a variable, or of a dict with that key."""
    if m.matches(node, _BACKEND_KEY):
        return True
    if not isinstance(node, cst.Arg):
        return False
    if node.star == "**":
        return isinstance(node.value, cst.Name) or bool(m.findall(node, _BACKEND_KEY))
    return node.keyword is not None and node.keyword.value == "backend"


def _goes_on(params: cst.Parameters) -> bool:
    """Return whether other parameters follow the positional ones."""
    return bool(params.kwonly_params or params.star_kwarg) or isinstance(params.star_arg, cst.Param)


def _without(node: cst.CSTNode, compiled: Collection[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield the node without a child, for each child that can be left out."""
    for name in ("decorators", "args", "bases", "keywords", "elements", "names", "items", "slice"):
        children = getattr(node, name, None)
        if isinstance(children, (list, tuple)):
            for i in range(len(children)):
                if names_backend(children[i]) or children[i] in compiled:  # it would compile otherwise, or nothing
                    continue
                rest = [*children[:i], *children[i + 1 :]]
                if rest and hasattr(rest[-1], "comma"):
                    rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                if name == "keywords" and not rest:
                    yield _without_keywords(node)
                elif name == "items" and rest:  # `with(a), b:` has no space, which `with b:` needs
                    yield node.with_changes(items=rest, whitespace_after_with=cst.SimpleWhitespace(" "))
                elif rest or name in ("decorators", "args", "bases"):
                    yield node.with_changes(**{name: rest})
    if isinstance(node, cst.Return) and node.value is not None:
        yield node.with_changes(value=None, whitespace_after_return=cst.MaybeSentinel.DEFAULT)
    if isinstance(node, cst.Param) and node.default is not None:
        yield node.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT)
    if isinstance(node, (cst.Param, cst.FunctionDef)):
        name = "annotation" if isinstance(node, cst.Param) else "returns"
        if getattr(node, name) is not None:
            yield node.with_changes(**{name: None})
    if isinstance(node, cst.FunctionDef) and node.params.posonly_params:
        *first, last = (*node.params.posonly_params, *node.params.params)
        params = (*first, last if _goes_on(node.params) else last.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        ordinary = {"posonly_params": (), "posonly_ind": cst.MaybeSentinel.DEFAULT, "params": params}
        yield node.with_changes(params=node.params.with_changes(**ordinary))
    if isinstance(node, (cst.WithItem, cst.ImportAlias)) and node.asname is not None:
        yield node.with_changes(asname=None)
    if isinstance(node, cst.If) and node.orelse is not None:
        yield node.with_changes(orelse=None)
        if isinstance(node.orelse, cst.If):  # skip the `elif`, or turn it into the `else`
            yield node.with_changes(orelse=node.orelse.orelse)
            yield node.with_changes(orelse=cst.Else(body=node.orelse.body))


def _without_keywords(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.ClassDef)
    bases = list(node.bases)
    if bases:
        bases[-1] = bases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(bases=bases, keywords=[])


class Nodes(cst.CSTVisitor):
    """Collects all nodes of a module, outer ones first."""

    def __init__(self, module: cst.Module) -> None:
        self._module = module
        self.nodes: list[cst.CSTNode] = []
        self.branches: set[int] = set()  # ids of `elif` nodes, which are not statements
        self.compiling: set[cst.CSTNode] = set()  # calls of torch.compile, and others with `backend=`
        self.compiled: set[cst.CSTNode] = set()  # the arguments that these compile
        module.visit(self)

    @functools.cached_property
    def _foreign(self) -> frozenset[str]:
        from minifier.repro.source.own_check import of_pythons_library  # imports torch

        return of_pythons_library(ast.parse(self._module.code))

    def on_visit(self, node: cst.CSTNode) -> bool:
        if names_backend(node):  # the backend under test stays
            return False
        self.nodes.append(node)
        if isinstance(node, cst.Call) and (self._is_compile(node.func) or any(map(names_backend, node.args))):
            self.compiling.add(node)
            self.compiled.update(arg for arg in node.args[:1] if not names_backend(arg))
        if isinstance(node, cst.If) and node.orelse is not None:
            self.branches.add(id(node.orelse))
        return True

    def _is_compile(self, function: cst.BaseExpression) -> bool:
        is_named = m.matches(function, m.Attribute(attr=m.Name("compile")))
        return is_named and root(function) not in self._foreign


def bodies(module: cst.Module) -> Iterator[Edited]:
    """The body of a `for`, `while`, `if`, `with` or `try` takes the statement's place."""
    visitor = Nodes(module)
    for node in visitor.nodes:
        if id(node) not in visitor.branches:
            for body in _unwrapped(node):
                yield from applied(module, Changes({node: body}))


def operands(module: cst.Module) -> Iterator[Edited]:
    """An operand takes its expression's place, outer expressions first."""
    modules, fixed, visitor = _modules(module), unpacked(module), Nodes(module)
    for node in visitor.nodes:
        if not (node in fixed and isinstance(node, (cst.Tuple, cst.List))):
            for operand in _operands(node, modules, visitor.compiling):
                if isinstance(node, cst.IfExp) or _may_replace(operand, modules):
                    yield from replaced(module, node, operand)
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Attribute):
            yield from replaced(module, node.value, node.value.value)
        if isinstance(node, cst.Assert):
            yield from replaced(module, node, cst.Expr(node.test))
        value = node.value if isinstance(node, (cst.Return, cst.Assign, cst.Expr, cst.Arg)) else None
        if value is not None and m.matches(value, _IN_PARENTHESES):
            yield from replaced(module, value, value.with_changes(lpar=[], rpar=[]))


def elements(module: cst.Module) -> Iterator[Edited]:
    """An argument, decorator, base, element, imported name, default, annotation or branch is left out."""
    modules, fixed, visitor = _modules(module), unpacked(module), Nodes(module)
    for node in visitor.nodes:
        needs_argument = isinstance(node, cst.Call) and len(node.args) == 1 and _is_of_module(node.func, modules)
        if needs_argument and m.matches(node, m.Call(args=[m.Arg(keyword=None)])):  # most likely
            continue
        if not (node in fixed and isinstance(node, (cst.Tuple, cst.List))):
            for rest in _without(node, visitor.compiled):
                yield from replaced(module, node, rest)
