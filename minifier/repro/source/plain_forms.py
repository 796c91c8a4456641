"""Edits that give a script the form in which a person writes it: fewer and shorter names, no comments."""

from __future__ import annotations

import builtins
import keyword
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing.module_statements import bound_by, dotted
from minifier.repro.source.patches import (
    EVALUATED_LATER,
    Changes,
    Edited,
    Located,
    Patch,
    Replacement,
    applied,
    changed,
    is_operation,
    put_value,
    replaced,
    uses_of,
)

_Line = cst.SimpleStatementLine
_MAX_LINE_CHARACTERS = 120  # of a line into which a value is put; as in torch's own code


def _assignments(within: cst.CSTNode) -> list[cst.Assign]:
    return [node for node in m.findall(within, m.Assign()) if isinstance(node, cst.Assign)]


def shorter_tuples(module: cst.Module) -> Iterator[Edited]:
    """Shorten assignments of tuples: `a, b = x, y` becomes `a = x`, or `b = y`, and `a, b = x` becomes `a = x[0]`."""
    read = _attributes_read(module)
    for node in _assignments(module):
        target, value = node.targets[0].target, node.value
        if len(node.targets) > 1 or not isinstance(target, cst.Tuple):
            continue
        for number, element in enumerate(target.elements):
            if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
                if _attribute(element.value) not in read:
                    yield from replaced(module, node, _without_pair(node, number))
            elif isinstance(element.value, (cst.Name, cst.Attribute)):
                item = cst.Subscript(value, [cst.SubscriptElement(cst.Index(cst.Integer(str(number))))])
                single = cst.AssignTarget(element.value)
                yield from replaced(module, node, node.with_changes(targets=[single], value=item))


def _attributes_read(module: cst.Module) -> set[str]:
    """Return the attributes that are read: without the assignment of one the script raises AttributeError."""
    bound = {
        id(node)
        for target in m.findall(module, m.AssignTarget())
        for node in m.findall(target, m.Attribute())
        if isinstance(target, cst.AssignTarget)
    }
    nodes = m.findall(module, m.Attribute())
    return {node.attr.value for node in nodes if isinstance(node, cst.Attribute) and id(node) not in bound}


def _attribute(target: cst.CSTNode) -> str:
    """Return the name of the attribute that is assigned; "" for another target."""
    return target.attr.value if isinstance(target, cst.Attribute) else ""


def _tuple_assignments(within: cst.CSTNode) -> Iterator[cst.Assign]:
    """Yield the assignments of as many values to as many targets."""
    for node in _assignments(within):
        target, value = node.targets[0].target, node.value
        if len(node.targets) > 1 or not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
            continue
        if len(target.elements) == len(value.elements):
            yield node


def _without_pair(node: cst.Assign, left_out: int) -> cst.Assign:
    """Return the assignment of tuples without one target and its value."""
    (target,) = node.targets
    assert isinstance(target.target, cst.Tuple) and isinstance(node.value, cst.Tuple), "as matched"
    shorter = target.with_changes(target=_shorter(target.target, left_out))
    return node.with_changes(targets=[shorter], value=_shorter(node.value, left_out))


def _shorter(node: cst.Tuple, left_out: int) -> cst.BaseExpression:
    rest = [element for number, element in enumerate(node.elements) if number != left_out]
    if len(rest) == 1:
        return rest[0].value
    return node.with_changes(elements=[*rest[:-1], rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def without_targets(module: cst.Module) -> Iterator[Edited]:
    """Drop a target: `a = f(x)` becomes `f(x)`, `a = b = x` becomes `b = x`, `(a := x)` becomes `x`."""
    read = _attributes_read(module)
    for node in m.findall(module, m.Assign() | m.AnnAssign() | m.AugAssign() | m.NamedExpr()):
        targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else []
        names = [*targets, *(e.value for t in targets if isinstance(t, cst.Tuple) for e in t.elements)]
        if any(_attribute(name) in read for name in names):
            continue
        if isinstance(node, cst.Assign) and len(node.targets) > 1:
            for target in node.targets:
                yield from replaced(
                    module, node, node.with_changes(targets=[t for t in node.targets if t is not target])
                )
        elif isinstance(node, cst.NamedExpr):
            yield from replaced(module, node, node.value)
        elif isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)) and _computes(node.value):
            yield from replaced(module, node, cst.Expr(node.value))
        if isinstance(node, cst.AnnAssign) and node.value is not None:
            yield from replaced(module, node, cst.Assign([cst.AssignTarget(node.target)], node.value))


def _computes(value: cst.BaseExpression | None) -> TypeGuard[cst.BaseExpression]:
    """Return whether an expression can fail, unlike a literal or the name of a variable."""
    return value is not None and bool(m.findall(value, m.Call() | m.Subscript() | m.Attribute() | m.BinaryOperation()))


def without_aliases(module: cst.Module) -> Iterator[Edited]:
    """`a = x`, or `a = f(x)` ahead of its only use, goes: the following lines use the value itself."""
    for block in (module, *m.findall(module, m.IndentedBlock())):
        assert isinstance(block, (cst.Module, cst.IndentedBlock))
        for number, line in enumerate(block.body):
            for name, value, left in _bindings(line):
                is_plain = isinstance(value, (cst.Integer, cst.Float, cst.SimpleString)) or bool(dotted(value))
                following = block.body[number + 1 :]
                if not is_plain and not _is_used_once(following, name):
                    continue
                rest = _with_value(following, name, value)
                if rest is None or (not is_plain and not _are_short(rest, following)):
                    continue
                changed = block.with_changes(body=[*block.body[:number], *left, *rest])
                yield from [changed] if isinstance(changed, cst.Module) else replaced(module, block, changed)
    yield from _without_stores(module)


def _without_stores(module: cst.Module) -> Iterator[Edited]:
    """Put the value that is assigned to an attribute or an entry in the only place that reads it."""
    stored = m.Attribute() | m.Subscript()
    places = defaultdict[str, list[cst.CSTNode]](list)
    for node in m.findall(module, stored):
        places[module.code_for_node(node)].append(node)
    for line in m.findall(module, m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget(target=stored)])])):
        (assign,) = m.findall(line, m.Assign())
        assert isinstance(assign, cst.Assign)
        target = assign.targets[0].target
        readers = [node for node in places[module.code_for_node(target)] if node is not target]
        if len(readers) == 1 and not is_operation(assign.value):
            yield from applied(module, Changes({line: [], readers[0]: [assign.value]}))


def _bindings(line: cst.BaseStatement) -> Iterator[tuple[str, cst.BaseExpression, list[cst.BaseStatement]]]:
    """Yield each name that the line assigns, with its value and what is left of the line without them."""
    if (alias := _alias(line)) is not None:
        yield (*alias, [])
        return
    for node in _tuple_assignments(line) if isinstance(line, _Line) and len(line.body) == 1 else ():
        target, value = node.targets[0].target, node.value
        assert isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple), "as matched"
        if any(isinstance(each, cst.StarredElement) for each in (*target.elements, *value.elements)):
            continue
        names = [each.value.value for each in target.elements if isinstance(each.value, cst.Name)]
        for number, (bound, given) in enumerate(zip(target.elements, value.elements, strict=True)):
            if isinstance(bound.value, cst.Name) and not any(uses_of(given.value, name) for name in names):
                left = line.with_changes(body=[_without_pair(node, number)])
                yield bound.value.value, given.value, [left]


def _alias(line: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """Return the name and the value of a line that assigns a single name; None for any other line."""
    if not isinstance(line, _Line) or len(line.body) != 1 or not isinstance(line.body[0], cst.Assign):
        return None
    targets = line.body[0].targets
    if len(targets) > 1 or not isinstance(targets[0].target, cst.Name):
        return None
    return targets[0].target.value, line.body[0].value


def _is_used_once(following: Sequence[cst.BaseStatement], name: str) -> bool:
    """Return whether the lines up to the next assignment read the name exactly once, and evaluate that use once."""
    until = next((i for i, line in enumerate(following) if (_alias(line) or ("",))[0] == name), len(following))
    lines = [line for line in following[: until + 1] if uses_of(line, name)]
    if len(lines) != 1 or not isinstance(lines[0], _Line) or len(uses_of(lines[0], name)) != 1:
        return False
    if any(m.findall(line, m.AssignTarget(target=m.Name(name))) for line in following[:until]):
        return False
    return not any(uses_of(each, name) for each in m.findall(lines[0], EVALUATED_LATER))


def _are_short(lines: Sequence[cst.BaseStatement], before: Sequence[cst.BaseStatement]) -> bool:
    """Return whether all lines that are not in `before` are short enough."""
    code = cst.Module([]).code_for_node
    known = {code(line).strip() for line in before}
    texts = {code(line).strip() for line in lines if isinstance(line, _Line)} - known
    return all(len(text) <= _MAX_LINE_CHARACTERS for text in texts)


def _with_value(
    lines: Sequence[cst.BaseStatement], name: str, value: cst.BaseExpression
) -> list[cst.BaseStatement] | None:
    """Return the lines with the value in place of the name, up to its next assignment; None if libcst refuses it."""
    put = put_value(name, value)
    result: list[cst.BaseStatement] = []
    for number, line in enumerate(lines):
        alias = _alias(line)
        if alias is not None and alias[0] == name:
            assert isinstance(line, _Line)
            new_value = changed(alias[1], put)
            if new_value is None:
                return None
            assignment = line.body[0].with_changes(value=new_value)
            return [*result, line.with_changes(body=[assignment]), *lines[number + 1 :]]
        new_line = changed(line, put)
        if not isinstance(new_line, cst.BaseStatement):
            return None
        result.append(new_line)
    return result


_CONTAINERS = m.Name("ModuleList") | m.Name("Sequential")


def without_displays(module: cst.Module) -> Iterator[Edited]:
    """Turn `xs = [x]` into `xs = x`, and `f(*xs)`, `xs[0]` and `for y in xs` into `f(xs)`, `xs` and `y = xs`.

    The same for an attribute, and for a module's container of one module. `xs = []` ahead of `xs.append(y)` becomes
    `xs = [y]`.
    """
    yield from _with_appended(module)
    for node in _assignments(module):
        target, single = node.targets[0].target, _single(node.value)
        if single is not None and isinstance(target, (cst.Name, cst.Attribute)):
            read: m.Name | m.Attribute
            read = m.Name(target.value) if isinstance(target, cst.Name) else m.Attribute(attr=m.Name(target.attr.value))
            yield from applied(module, Changes({node.value: [single], **_reads_of_single(module, read)}))


def _with_appended(module: cst.Module) -> Iterator[Edited]:
    """Turn `xs = []` ahead of `xs.append(y)` into `xs = [y]`."""
    for block in (module, *m.findall(module, m.IndentedBlock())):
        assert isinstance(block, (cst.Module, cst.IndentedBlock))
        for line, following in pairwise(block.body):
            name, value = _alias(line) or ("", None)
            append = m.Call(func=m.Attribute(value=m.Name(name), attr=m.Name("append")), args=[m.Arg(star="")])
            if isinstance(value, cst.List) and m.matches(following, m.SimpleStatementLine(body=[m.Expr(append)])):
                call = m.findall(following, append)[0]
                assert isinstance(call, cst.Call), "as matched"
                longer = value.with_changes(elements=[*value.elements, cst.Element(call.args[0].value)])
                yield from applied(module, Changes({value: [longer], following: []}))


def _named(name: Any) -> Any:
    """Return a matcher of the name itself, and of it as an attribute."""
    return m.OneOf(name, m.Attribute(attr=name))


def _single(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the only element of a display, or the only module of a container; None for any other expression."""
    if isinstance(value, cst.Call) and m.matches(value.func, _named(_CONTAINERS)) and len(value.args) == 1:
        return (
            value.args[0].value if m.matches(value.func, _named(m.Name("Sequential"))) else _single(value.args[0].value)
        )
    if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == 1:
        return value.elements[0].value
    return None


def _reads_of_single(module: cst.Module, read: m.Name | m.Attribute) -> dict[cst.CSTNode, list[cst.CSTNode]]:
    """Return what replaces each place that reads a display of one element as a display."""
    first = m.Subscript(value=read, slice=[m.SubscriptElement(m.Index(m.Integer("0")))])
    changes: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for subscript in m.findall(module, first):
        assert isinstance(subscript, cst.Subscript)
        changes[subscript] = [subscript.value]
    for arg in m.findall(module, m.Arg(star="*", value=read)):
        changes[arg] = [arg.with_changes(star="")]
    for loop in m.findall(module, m.For(iter=read, body=m.IndentedBlock(), orelse=None)):
        assert isinstance(loop, cst.For)
        changes[loop] = [_Line([cst.Assign([cst.AssignTarget(loop.target)], loop.iter)]), *loop.body.body]
    return changes


_MAX_CHARACTERS = 8  # of a name that stays
_FUNCTIONS, _CLASSES, _VARIABLES = "fghpqrs", "ABCDEFG", "xyzabcuvwnmkij"


def short_names(located: Located) -> Iterator[Patch]:
    """Yield the renaming of each long name of the script's own, everywhere at once.

    Names that are imported, or read as an attribute or a keyword anywhere, stay.
    """
    visitor = _BoundNames()
    located.module.visit(visitor)
    taken = {*visitor.uses, *visitor.fixed, *dir(builtins), *keyword.kwlist}
    for name, choices in visitor.bound.items():
        new = next((choice for choice in choices if choice not in taken), None)
        if new is None or len(name) <= _MAX_CHARACTERS or name in visitor.fixed or name.startswith("__"):
            continue
        taken.add(new)
        spans = tuple(_span(located, use, new) for use in visitor.uses[name])
        moved = ((name, new),) if choices is _FUNCTIONS else ()
        yield Patch(tuple(sorted(spans)), moved)


def _span(located: Located, node: cst.Name, new: str) -> Replacement:
    span = located.span(node)
    start = span.start + span.text.index(node.value)  # ahead of it there may be parentheses
    return Replacement(start, start + len(node.value), new)


class _BoundNames(cst.CSTVisitor):
    """Collects the names that the script binds, with letters to choose from, their uses, and the names that stay."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.uses: dict[str, list[cst.Name]] = {}
        self.fixed: set[str] = set()
        self._methods: set[cst.CSTNode] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.uses.setdefault(node.value, []).append(node)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        self.fixed.add(node.attr.value)
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        if node.keyword is not None:
            self.fixed.add(node.keyword.value)
        node.value.visit(self)
        return False

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        self.fixed.add(bound_by(node))
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.setdefault(node.name.value, _CLASSES)
        for statement in node.body.body:  # what is bound there is an attribute
            names = [statement.name] if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else []
            if isinstance(statement, cst.SimpleStatementLine):
                targets = [t for s in statement.body if isinstance(s, cst.Assign) for t in s.targets]
                names = [t.target for t in targets if isinstance(t.target, cst.Name)]
            self.fixed |= {name.value for name in names}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.setdefault(node.name.value, _FUNCTIONS)

    def visit_Param(self, node: cst.Param) -> None:
        self.bound.setdefault(node.name.value, _VARIABLES)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._bind(node.name)

    def _bind(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self.bound.setdefault(target.value, _VARIABLES)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._bind(element.value)


def without_comments(module: cst.Module) -> Iterator[Edited]:
    """Yield the module without its comments, if any: they describe the original script."""
    if m.findall(module, m.Comment()):
        yield from applied(module, _WithoutComments())


class _WithoutComments(cst.CSTTransformer):
    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        if original_node.comment is None:
            return updated_node
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        return updated_node if original_node.comment is None else cst.RemoveFromParent()
