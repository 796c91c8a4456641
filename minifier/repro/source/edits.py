"""The generic edits of a script: delete an item, hoist a child, put a value for its name, a body for its call, shrink.

An edit may change what the script does: the probe decides. Each function yields the edits of one kind for a script.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing.module_statements import dotted
from minifier.data.torch_names import loaded_with_torch
from minifier.repro.source.script import (
    CALL_OF_BASE,
    EVALUATED_LATER,
    Changes,
    Edit,
    Script,
    blocks,
    changed,
    in_place_of,
    is_operation,
    uses_of,
    with_values,
)

_MAX_LINE_CHARACTERS = 120  # of a line into which a value is put; as in torch's own code
_MAX_QUALIFIED_USES = 3  # of an imported name: with more of them the import is shorter
_Line = cst.SimpleStatementLine
_COMPOUND = cst.For, cst.While, cst.If, cst.With, cst.Try
_CALLED_AS_INSTANCE = ("forward", "__call__")

# Delete an item: of a list that a node has, or a child that it may lack.

_ITEMS = (
    cst.Arg, cst.Element, cst.StarredElement, cst.DictElement, cst.Decorator, cst.ImportAlias, cst.WithItem,
    cst.ExceptHandler, cst.CompIf, cst.SubscriptElement, cst.AssignTarget, cst.Else, cst.Finally, cst.Annotation,
)  # fmt: skip
_OPTIONAL = (
    (cst.Return, "value"), (cst.Param, "default"), (cst.WithItem, "asname"), (cst.ImportAlias, "asname"),
    (cst.Assert, "msg"), (cst.Raise, "cause"), (cst.If, "orelse"), (cst.Slice, "lower"), (cst.Slice, "upper"),
)  # fmt: skip


def deleted(script: Script) -> Iterator[Edit]:
    """Delete an argument, element, decorator, base, imported or global name, default, annotation, branch, iterable."""
    for node in script.nodes:
        parent = script.parent.get(node)
        is_child = any(isinstance(parent, kind) and getattr(parent, name) is node for kind, name in _OPTIONAL)
        if (isinstance(node, _ITEMS) and node not in script.compiled) or is_child:
            yield Edit({node: []})
        if isinstance(node, (cst.For, cst.CompFor)) and isinstance(node.target, cst.Tuple):
            yield from (Edit({node.target: [one], node.iter: [of]}) for one, of in _fewer_items(node.target, node.iter))
        if isinstance(node, cst.Global) and len(node.names) > 1:  # whose last name may have no comma
            for gone in node.names:
                *names, last = (name for name in node.names if name is not gone)
                last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
                yield Edit({node: [node.with_changes(names=[*names, last])]})


def _fewer_items(target: cst.Tuple, iterated: cst.BaseExpression) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield `x` and `xs` for `n, x` of `enumerate(xs)`, and for `x, y` of `zip(xs, ys)`; else each target by itself."""
    if not isinstance(iterated, cst.Call):
        yield from ((each.value, iterated) for each in target.elements)
        return
    plain = [arg for arg in iterated.args if arg.keyword is None and not arg.star]
    if plain and m.matches(iterated, m.Call(m.Name("enumerate"))) and len(target.elements) == 2:
        yield target.elements[1].value, plain[0].value
    elif m.matches(iterated, m.Call(m.Name("zip"))) and len(plain) == len(target.elements):
        for number, gone in enumerate(plain):
            rest = [arg for arg in iterated.args if arg is not gone]
            yield _shorter(target, number), rest[0].value if len(plain) == 2 else iterated.with_changes(args=rest)


# Hoist a child: it takes its parent's place.


def unwrapped(script: Script) -> Iterator[Edit]:
    """Put the body of a `for`, `while`, `if`, `with` or `try` in its place.

    The body of a `for` may begin with its first item, and that of a `with` with the call of `__enter__`.
    """
    for node in script.nodes:
        if isinstance(node, _COMPOUND) and isinstance(node.body, cst.IndentedBlock):
            is_branch = isinstance(script.parent[node], cst.If)  # an `elif` is no statement
            bodies: list[Sequence[cst.BaseStatement]] = [] if is_branch else [node.body.body]
            if isinstance(node, cst.For):
                bodies += ([_assignment(node.target, item), *node.body.body] for item in _items(node.iter))
            if isinstance(node, cst.With):
                bodies += ([*entered, *node.body.body] for entered in _entered(script, node))
            if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else) and not is_branch:
                bodies.append(node.orelse.body.body)  # type: ignore[arg-type]
            if isinstance(node, cst.If) and is_branch:
                yield Edit({node: [cst.Else(node.body)]})
                yield from [Edit({node: [node.orelse]})] if node.orelse is not None else []
            yield from (Edit({node: body}) for body in bodies)
        elif isinstance(node, cst.Match):
            yield from (Edit({node: case.body.body}) for case in node.cases)


def _entered(script: Script, node: cst.With) -> Iterator[list[cst.BaseStatement]]:
    """Yield `x = C()` and `x.__enter__()` of `with C() as x`, for a class of the script."""
    made = (m.extract(node, m.With([m.WithItem(m.SaveMatchedNode(m.Call(m.Name()), "made"))])) or {}).get("made")
    if isinstance(made, cst.Call) and m.findall(script.module, m.ClassDef(made.func)):  # type: ignore[arg-type]
        bound = node.items[0].asname
        name = bound.name if bound is not None and isinstance(bound.name, cst.Name) else cst.Name("entered")
        enter = cst.Expr(cst.Call(cst.Attribute(name, cst.Name("__enter__"))))
        yield [_assignment(name.with_changes(), made), _Line([enter])]


def _items(iterated: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield items of what is iterated: of a display its last and first, 0 for `range(...)`, else `xs[0]`, `xs[-1]`."""
    if isinstance(iterated, (cst.List, cst.Tuple)):
        values = [each.value for each in iterated.elements if isinstance(each, cst.Element)]
        yield from dict.fromkeys([*values[-1:], *values[:1]])
    elif m.matches(iterated, m.Call(func=m.Name("zip"))) and isinstance(iterated, cst.Call):
        yield cst.Tuple([cst.Element(_at("0", arg.value)) for arg in iterated.args], lpar=[], rpar=[])
    elif isinstance(iterated, cst.Call):
        yield cst.Integer("0")
    else:
        yield from (_at("0", iterated), _at("-1", iterated))


def _at(index: str, value: cst.BaseExpression) -> cst.BaseExpression:
    return cst.Subscript(value, [cst.SubscriptElement(cst.Index(cst.parse_expression(index)))])


def without_targets(script: Script) -> Iterator[Edit]:
    """Put the value in the place of its assignment, and the test in the place of its assertion.

    Of `a, b = f(x)` leave `a = f(x)[0]` too, or `b = f(x)[1]`.
    """
    for node in script.nodes:
        if isinstance(node, cst.Assign) and m.matches(node, m.Assign([m.AssignTarget(m.Tuple())], ~m.Tuple())):
            for place, each in enumerate(cst.ensure_type(node.targets[0].target, cst.Tuple).elements):
                target = cst.AssignTarget(each.value)  # type: ignore[arg-type]
                yield Edit({node: [cst.Assign([target], _at(str(place), node.value))]})
        if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)) and node.value is not None:
            if m.findall(node.value, m.Call() | m.Subscript() | m.Attribute() | m.BinaryOperation()):
                yield Edit({node: [cst.Expr(node.value)]})
        elif isinstance(node, cst.NamedExpr):
            yield Edit({node: [node.value]})
        elif isinstance(node, cst.Assert):
            yield Edit({node: [cst.Expr(node.test)]})


def hoisted(script: Script) -> Iterator[Edit]:
    """Put an operand, an argument, an element or the object of a method in the place of its expression."""
    for node in script.nodes:
        if not isinstance(node, cst.BaseExpression) or isinstance(node, _ITEMS):
            continue
        if _is_read(script, node) and not _is_needed_call(script, node):
            operands = {child: script.code(child) for child in _operands(node)}
            shape = script.code(node)
            for child, text in operands.items():
                shape = shape if _is_plain(child) else shape.replace(text, "_", 1)
            for place, child in enumerate(operands):
                if _may_stand_alone(script, child):
                    put = in_place_of(node, child, script.parent.get(node))
                    yield Edit({node: [put]}, key=(_around(script, node), shape, str(place)))


def _is_read(script: Script, node: cst.BaseExpression) -> bool:
    """Whether the expression gives a value: it is no target, and no name of an import, a keyword or an attribute."""
    parent = script.parent.get(node)
    if isinstance(parent, (cst.AssignTarget, cst.ImportAlias, cst.ImportFrom, cst.AsName, cst.Param, cst.Decorator)):
        return False
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.target is not node
    return not (_is_keyword(parent, node) or (isinstance(parent, cst.Attribute) and parent.attr is node))


def _is_needed_call(script: Script, node: cst.CSTNode) -> bool:
    """Whether the expression is a call that compiles, or the function that it calls."""
    parent = script.parent.get(node)
    return node in script.compiling or (
        parent in script.compiling and isinstance(parent, cst.Call) and parent.func is node
    )


def _operands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the expressions right below an expression: without names of methods, with the objects that have them."""
    for child in node.children:
        if isinstance(node, cst.Attribute) and child is node.attr:
            continue
        if isinstance(node, cst.Call) and child is node.func:
            if isinstance(child, cst.Attribute):
                yield child.value
            continue
        if isinstance(child, cst.BaseExpression) and not isinstance(child, _ITEMS):
            yield child
            if isinstance(node, (cst.Subscript, cst.Attribute)):  # `x` of `x.chunk(2)[0]`, and of `Net(x).inner`
                yield from _operands(child)
        elif isinstance(child, (cst.Arg, *_ITEMS, cst.Index, cst.ComparisonTarget, cst.FormattedStringExpression)):
            inner = getattr(child, "slice", child)
            yield from (
                each for each in inner.children if isinstance(each, cst.BaseExpression) and not _is_keyword(inner, each)
            )
        elif isinstance(child, cst.CompFor):
            yield child.iter


def _is_keyword(parent: cst.CSTNode | None, child: cst.CSTNode) -> bool:
    return isinstance(parent, cst.Arg) and parent.keyword is child


def _may_stand_alone(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an operand may be a value: 1 is tried for each anyway, and a module is none."""
    if isinstance(node, cst.Name):
        return node.value not in script.modules and node.value != "self"
    if dotted(node).partition(".")[0] in script.modules:
        return False
    return not isinstance(node, (cst.BaseNumber, cst.SimpleString))


# Put a bound value in the place of its name.


def inlined(script: Script) -> Iterator[Edit]:
    """Put a value in the place of its name: a plain one everywhere, another one in the only place that reads it.

    The default of a parameter is such a value: `def f(x, n=2)` of which no call gives `n`.
    """
    for node in script.nodes:
        if isinstance(node, cst.FunctionDef):
            for param in (*node.params.params, *node.params.kwonly_params):
                if param.default is not None and (read := uses_of(node.body, param.name.value)):
                    yield Edit(_puts(script, read, param.default))
    for block in blocks(script):
        for number, line in enumerate(block.body):
            for target, value, left in _bindings(line):
                behind = block.body[number + 1 :]
                is_bound_again = any(_binds(each, target) for each in behind)
                is_anywhere = isinstance(block, cst.Module) and _is_plain(value) and not is_bound_again
                earlier = [each for each in block.body[:number] if is_anywhere and _only_reads(each, target)]
                uses = _uses_behind(script, target, [*earlier, *behind])
                # Of `a, b = x, y`, `b = y` is left.
                if left or (uses and (_is_plain(value) or _fits(script, uses, value, block))):
                    yield Edit({line: left, **_puts(script, uses, value)})


def _binds(line: cst.CSTNode, target: cst.BaseExpression) -> bool:
    """Return whether a line assigns a value to this name."""
    return isinstance(target, cst.Name) and any(m.matches(each, m.Name(target.value)) for each, _, _ in _bindings(line))


def _only_reads(definition: cst.CSTNode, target: cst.BaseExpression) -> bool:
    """Return whether a function or class reads a name and binds none like it, not even as a parameter."""
    if not isinstance(definition, (cst.FunctionDef, cst.ClassDef)) or not isinstance(target, cst.Name):
        return False
    return len(uses_of(definition, target.value)) == len(m.findall(definition, m.Name(target.value))) > 0


def _is_plain(value: cst.BaseExpression) -> bool:
    return isinstance(value, (cst.BaseNumber, cst.SimpleString)) or bool(dotted(value))


def _puts(
    script: Script, uses: Sequence[cst.BaseExpression], value: cst.BaseExpression
) -> dict[cst.CSTNode, list[cst.CSTNode]]:
    return {use: [in_place_of(use, value, script.parent.get(use))] for use in uses}


def _bindings(line: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, list[cst.CSTNode]]]:
    """Yield each target that the line assigns, with its value, and what is left of the line without them."""
    if not isinstance(line, _Line) or not m.matches(line, m.SimpleStatementLine([m.Assign([m.AssignTarget()])])):
        return
    assign = cst.ensure_type(line.body[0], cst.Assign)
    target, value = assign.targets[0].target, assign.value
    if not isinstance(target, (cst.Tuple, cst.List)):
        yield target, value, []
    elif isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements):
        if m.findall(assign, m.StarredElement()):
            return
        for number, (bound, given) in enumerate(zip(target.elements, value.elements, strict=True)):
            shorter = assign.with_changes(
                targets=[cst.AssignTarget(_shorter(target, number))], value=_shorter(value, number)
            )
            yield bound.value, given.value, [line.with_changes(body=[shorter])]


def _shorter(node: cst.Tuple | cst.List, left_out: int) -> Any:
    rest = [element for number, element in enumerate(node.elements) if number != left_out]
    if len(rest) == 1:
        return rest[0].value
    return node.with_changes(elements=[*rest[:-1], rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def _uses_behind(script: Script, target: cst.BaseExpression, lines: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Return the places that read a target, of a name up to its next assignment."""
    if not isinstance(target, cst.Name):
        text = script.code(target)
        found = (node for node in script.nodes if isinstance(node, type(target)) and script.code(node) == text)
        return [node for node in found if not isinstance(script.parent.get(node), cst.AssignTarget)]
    uses: list[cst.BaseExpression] = []
    for line in lines:
        uses += uses_of(line, target.value)
        if _binds(line, target):
            break
        if isinstance(line, (cst.FunctionDef, cst.ClassDef)) and line.name.value == target.value:
            break
    return uses


def _fits(script: Script, uses: Sequence[cst.CSTNode], value: cst.CSTNode, block: cst.CSTNode) -> bool:
    """Whether an expression of a block is read once, and evaluated once there, in a line that stays short."""
    if len(uses) != 1:
        return False
    at: cst.CSTNode | None = uses[0]
    while at is not None and at is not block:
        if isinstance(at, (cst.For, cst.While)):
            return False
        at = script.parent.get(at)
    line = script.line(uses[0])
    if not isinstance(line, _Line) or any(
        uses[0] in m.findall(each, m.Name()) for each in m.findall(line, EVALUATED_LATER)
    ):
        return False
    return len(script.code(line).strip()) + len(script.code(value)) <= _MAX_LINE_CHARACTERS


# Put a function's body in the place of its call.


def without_functions(script: Script) -> Iterator[Edit]:
    """Put the body of a function in the place of its only call, or what it returns in the place of each call.

    That of a generator takes the place of the `for` or `with` that runs it, whose own body takes that of the `yield`.
    """
    methods = {each for node in script.nodes if isinstance(node, cst.ClassDef) for each in node.body.body}
    for node in script.nodes:
        if isinstance(node, (cst.For, cst.With)):
            yield from _without_generator(script, node)
        if not isinstance(node, cst.FunctionDef) or node.decorators or node.name.value.startswith("__"):
            continue
        if node not in methods and (called := _wrapped(node)) is not None:
            yield Edit({node: [], **{use: [called] for use in script.uses(node.name.value)}})
        name: Any = m.Name(node.name.value)
        func = m.Attribute(attr=name) if node in methods else name
        calls = [call for call in m.findall(script.module, m.Call(func=func)) if isinstance(call, cst.Call)]
        uses = m.findall(script.module, func) if node in methods else script.uses(node.name.value)
        if not calls or len(uses) != len(calls) or any(call in m.findall(node, m.Call()) for call in calls):
            continue
        given = [_given(node, call, node in methods) for call in calls]
        values = [each for each in given if each is not None]
        changes = _with_body(script, node, calls, values) if len(values) == len(calls) else None
        if changes is not None:
            yield Edit({**changes, node: []}, ((node.name.value, _around(script, calls[0])),))


def _without_generator(script: Script, node: cst.For | cst.With) -> Iterator[Edit]:
    """Yield the edit that puts a generator's body in the place of the `for` or `with` that runs it."""
    found: Any = m.extract(node, m.For(iter=_RUN) | m.With([m.WithItem(_RUN)]))
    functions: Any = m.findall(script.module, m.FunctionDef(found["name"])) if found else ()
    if len(functions) != 1 or len(script.uses(found["name"].value)) != 1:
        return
    (function,) = functions
    values, yields = _given(function, found["call"], is_method=False), m.extractall(function, _YIELD)
    if values is not None and len(yields) == len(m.findall(function, m.Yield() | m.Return())) == 1:
        target: Any = getattr(node.items[0].asname, "name", None) if isinstance(node, cst.With) else node.target
        value: Any = cst.ensure_type(yields[0]["yield"], cst.Yield).value
        is_read = target is not None and value is not None and not value.deep_equals(target)
        bound = [_assignment(target, value)] if is_read else []
        body: Any = changed(function.body, {yields[0]["line"]: [*bound, *node.body.body]})  # type: ignore[dict-item]
        moved = ((function.name.value, _around(script, node)),)
        yield Edit({node: [*_assigned(values), *body.body], function: []}, moved)


def _assigned(values: Mapping[str, cst.BaseExpression]) -> list[_Line]:
    """Return lines that assign the values to the names, but for a name that is its value."""
    others = ((name, value) for name, value in values.items() if not m.matches(value, m.Name(name)))
    return [_assignment(cst.Name(name), value) for name, value in others]


def _assignment(target: cst.BaseAssignTargetExpression, value: cst.BaseExpression) -> _Line:
    return _Line([cst.Assign([cst.AssignTarget(target)], value)])


def _wrapped(function: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return `g` of `def f(x): return g(x)`; None for any other function."""
    found = m.extract(function.body, _ONE_CALL)
    params = [param.name.value for param in function.params.params]
    if found is None or not isinstance(call := found["call"], cst.Call) or uses_of(call.func, function.name.value):
        return None
    is_passed_on = len(call.args) == len(params) and all(
        m.matches(arg, m.Arg(value=m.Name(name), keyword=None, star=""))
        for arg, name in zip(call.args, params, strict=False)
    )
    return call.func if is_passed_on and not any(uses_of(call.func, name) for name in params) else None


_CALL = m.SaveMatchedNode(m.Call(), "call")
_RUN = m.SaveMatchedNode(m.Call(m.SaveMatchedNode(m.Name(), "name")), "call")
_YIELD = m.SaveMatchedNode(m.SimpleStatementLine([m.Expr(m.SaveMatchedNode(m.Yield(), "yield"))]), "line")
_ONE_CALL = m.IndentedBlock(body=[m.SimpleStatementLine(body=[m.Return(value=_CALL) | m.Expr(value=_CALL)])])


def _with_body(
    script: Script,
    function: cst.FunctionDef,
    calls: Sequence[cst.Call],
    values: Sequence[dict[str, cst.BaseExpression]],
) -> Changes | None:
    """Return what replaces the calls of a function, or the line with its only call; None if its body does not fit."""
    lines = list(function.body.body)
    if any(isinstance(line, _Line) and len(line.body) != 1 for line in lines) or not lines:
        return None
    body = [line.body[0] if isinstance(line, _Line) else line for line in lines]
    last: cst.BaseSmallStatement | None = body[-1] if isinstance(body[-1], cst.Return) else None
    nested = chain.from_iterable(m.findall(each, m.Return()) for each in m.findall(function.body, m.FunctionDef()))
    if len(m.findall(function, m.Return())) - len(list(nested)) != (last is not None):
        return None
    value: cst.BaseExpression = cst.Name("None")
    if isinstance(last, cst.Return) and last.value is not None:
        value = last.value
    elif len(body) == 1 and isinstance(body[0], cst.Expr):
        last, value = body[0], body[0].value
    if len(body) == 1 and last is not None:
        results = [_result(value, each) for each in values]
        found = [each for each in results if each is not None]
        lengths = [sum(len(script.code(node)) for node in nodes) for nodes in (found, [function, *calls])]
        if len(found) < len(calls) or lengths[0] > lengths[1]:
            return None
        pairs = zip(calls, found, strict=True)
        return {call: [in_place_of(call, new, script.parent.get(call))] for call, new in pairs}
    line = script.line(calls[0])
    is_later = any(calls[0] in m.findall(each, m.Call()) for each in m.findall(line, EVALUATED_LATER))
    if len(calls) > 1 or not isinstance(line, _Line) or len(line.body) != 1 or is_later:
        return None
    rest = lines if last is None else lines[:-1]
    is_dropped = last is None and m.matches(line.body[0], m.Expr()) and getattr(line.body[0], "value", None) is calls[0]
    put = changed(line, {calls[0]: [in_place_of(calls[0], value, script.parent.get(calls[0]))]})
    return {line: [*_assigned(values[0]), *rest, *([] if is_dropped or put is None else [put])]}


def _result(value: cst.BaseExpression, values: dict[str, cst.BaseExpression]) -> cst.BaseExpression | None:
    """Return an expression with values for its names; None if that computes an operation more than once."""
    if any(len(uses_of(value, name)) > 1 and is_operation(given) for name, given in values.items()):
        return None
    new = with_values(value, values)
    return new if isinstance(new, cst.BaseExpression) else None


def _given(function: cst.FunctionDef, call: cst.Call, is_method: bool) -> dict[str, cst.BaseExpression] | None:
    """Return the value of each parameter in a call; None unless the call and the defaults give all."""
    own = function.params
    if not isinstance(own.star_arg, (cst.MaybeSentinel, cst.ParamStar)) or own.star_kwarg is not None:
        return None
    params = [*own.posonly_params, *own.params]
    args = list(call.args)
    if is_method:
        if not isinstance(call.func, cst.Attribute) or not isinstance(call.func.value, cst.Name):
            return None
        args.insert(0, cst.Arg(call.func.value))
    values = {param.name.value: param.default for param in (*params, *own.kwonly_params)}
    for number, arg in enumerate(args):
        name = arg.keyword.value if arg.keyword is not None else ""
        if arg.star or (not name and number >= len(params)) or (name and name not in values):
            return None
        values[name or params[number].name.value] = arg.value
    known = {name: value for name, value in values.items() if value is not None}
    return known if len(known) == len(values) else None


def _around(script: Script, node: cst.CSTNode) -> str:
    """Return the name of the innermost function around a node, or `<module>`."""
    while node in script.parent:
        node = script.parent[node]
        if isinstance(node, cst.FunctionDef):
            return node.name.value
    return "<module>"


# Put what an object has in the place of its class.


def without_classes(script: Script) -> Iterator[Edit]:
    """Put the base in the place of a class without a body, and functions and variables for one with a single object.

    Or put an object that `__init__` makes in the place of the instance: `Block(8)` for `Net(8)`. For a module that is
    compiled in place only a class would do: `net.compile()` becomes `net = torch.compile(net)`.
    """
    for node in script.nodes:
        if "torch" in script.modules and (found := m.extract(node, _COMPILED_IN_PLACE)) is not None:
            call, module = cst.ensure_type(found["call"], cst.Call), found["module"]
            args = [cst.Arg(module), *call.args]  # type: ignore[arg-type]
            compiled = call.with_changes(func=cst.Attribute(cst.Name("torch"), cst.Name("compile")), args=args)
            yield Edit({node: [cst.Assign([cst.AssignTarget(module)], compiled)]})  # type: ignore[arg-type]
        if not isinstance(node, cst.ClassDef):
            continue
        calls = _made(script, node)
        yield from (Edit({node: [], **inner}) for inner in _inner_objects(script, node, calls))
        if m.matches(node, _ONLY_A_BASE):
            yield Edit({node: [], **{use: [node.bases[0].value] for use in script.uses(node.name.value)}})
        else:
            yield from _without_object(script, node, calls)


def with_globals(script: Script) -> Iterator[Edit]:
    """Put functions in the place of a class whose object a function makes, and globals in that of its attributes."""
    for node in script.nodes:
        if isinstance(node, cst.ClassDef):
            yield from _without_object(script, node, _made(script, node), has_globals=True)


def _made(script: Script, node: cst.ClassDef) -> list[cst.Call]:
    """Return the calls that make a class's objects; none if the class is read elsewhere, has keywords or decorators."""
    is_plain = not (node.keywords or node.decorators)
    found = m.findall(script.module, m.Call(func=m.Name(node.name.value)))
    calls = [call for call in found if isinstance(call, cst.Call)]
    return calls if is_plain and len(calls) == len(script.uses(node.name.value)) else []


def _bound_to(method: cst.FunctionDef) -> tuple[str, cst.FunctionDef]:
    """Return the name of a method's first parameter, and the method without it."""
    own, *params = method.params.params
    return own.name.value, method.with_changes(params=method.params.with_changes(params=params))


def _inner_objects(script: Script, node: cst.ClassDef, calls: Sequence[cst.Call]) -> Iterator[Changes]:
    """Yield what replaces the calls of a class: each object that its `__init__` makes for an attribute of `self`.

    What reads that attribute outside of the class reads the object.
    """
    init = next((each for each in node.body.body if m.matches(each, _INIT)), None)
    if not isinstance(init, cst.FunctionDef) or not calls:
        return
    own, function = _bound_to(init)
    given = [values for call in calls if (values := _given(function, call, is_method=False)) is not None]
    target = m.AssignTarget(m.Attribute(m.Name(own), m.SaveMatchedNode(m.Name(), "name")))
    inside = set(m.findall(node, m.Attribute()))
    for line in init.body.body:
        made = m.extract(line, m.SimpleStatementLine([m.Assign([target], _CALL)]))
        value = made["call"] if made is not None else None
        if isinstance(value, cst.Call) and not uses_of(value, own):
            results = [result for values in given if (result := _result(value, values)) is not None]
            if len(results) == len(calls):
                name = cst.ensure_type((made or {})["name"], cst.Name).value
                read = set(m.findall(script.module, m.Attribute(attr=m.Name(name)))) - inside
                changes: dict[cst.CSTNode, Sequence[cst.CSTNode]] = {
                    at: [at.value] for at in read if isinstance(at, cst.Attribute)
                }
                yield changes | {call: [result] for call, result in zip(calls, results, strict=True)}


def _without_object(
    script: Script, node: cst.ClassDef, calls: Sequence[cst.Call], *, has_globals: bool = False
) -> Iterator[Edit]:
    """Yield the edit that puts functions in the place of a class, and variables in that of its object's attributes.

    What `__init__` does stands where a line of the module made the object, or else behind the functions; with
    `has_globals` in the function that made it. A call of the class becomes its `forward` or `__call__`; where there is
    none, `net = Net()` goes. Nothing if the class has more than methods, or several objects have attributes.
    """
    methods = [each for each in node.body.body if m.matches(each, _METHOD) and isinstance(each, cst.FunctionDef)]
    init = next((each for each in methods if m.matches(each, _INIT)), None)
    given = _given(_bound_to(init)[1], calls[0], is_method=False) if init is not None and calls else {}
    if len(methods) < len(node.body.body) or given is None or not (len(calls) == 1 or (calls and init is None)):
        return
    names = _names_of_attributes(script, node, methods)
    parts = _as_functions(methods, names) if names is not None else None
    if names is None or parts is None:
        return
    functions, state = parts
    state = [*_assigned(given), *state]
    called = next((names[name] for name in _CALLED_AS_INSTANCE if name in names), None)
    changes: dict[cst.CSTNode, Sequence[cst.CSTNode]] = {}
    inside = set(m.findall(node, m.Name()))
    for call in calls:
        assign = script.parent[call]
        if isinstance(assign, cst.Attribute) and assign.attr.value in names:  # `Net().step(x)`
            changes[assign] = [names[assign.attr.value]]
            continue
        if isinstance(assign, cst.For) and "__iter__" in names:
            changes[call] = [cst.Call(names["__iter__"])]
            continue
        around = script.parent[assign]
        bound = script.parent[around] if around in script.compiling else assign  # `net = torch.compile(Net())`
        holder = bound.targets[0].target if isinstance(bound, cst.Assign) and len(bound.targets) == 1 else None
        uses = script.uses(holder.value) if isinstance(holder, cst.Name) else []
        outside = [script.parent[use] for use in uses if use not in inside]
        read = _attributes(outside, names)
        if called is None and (not isinstance(holder, cst.Name) or len(read) < len(outside)):
            return
        changes |= read
        changes[assign if called is None else call] = [] if called is None else [called]
    moved = tuple((name, new.value) for name, new in names.items() if name != new.value)
    line = script.line(calls[0])
    is_inside = line not in script.module.body
    rest = changed(line, changes)
    lines = [*state, *([] if rest is None else [rest])]
    if is_inside and not has_globals:
        yield Edit({**changes, node: [*functions, *state]}, moved)
    elif isinstance(line, _Line) and not has_globals:
        yield Edit({**changes, line: lines, node: functions}, moved)
    elif isinstance(line, _Line) and is_inside:
        assigned = (found["name"] for each in state if (found := m.extract(each, _ASSIGNED)) is not None)
        shared = [cst.NameItem(cst.ensure_type(name, cst.Name)) for name in assigned]
        if shared:
            yield Edit({**changes, line: [_Line([cst.Global(shared)]), *lines], node: functions}, moved)


def _names_of_attributes(
    script: Script, node: cst.ClassDef, methods: Sequence[cst.FunctionDef]
) -> dict[str, cst.Name] | None:
    """Return a free name for each method and attribute; None for a class with methods that Python calls by itself."""
    own: list[str] = []
    for method in methods:
        if not m.matches(method, _INIT):
            own.append(method.name.value)
            continue
        of_self = m.Attribute(m.Name(_bound_to(method)[0]))
        own += [each.target.attr.value for each in m.findall(method, m.AssignTarget(of_self))]  # type: ignore[attr-defined]
        for target in m.findall(method, m.AssignTarget(m.Tuple())):
            own += [each.value.attr.value for each in m.findall(target, m.Element(of_self))]  # type: ignore[attr-defined]
    named = {each.attr.value for each in m.findall(script.module, m.Attribute()) if isinstance(each, cst.Attribute)}
    if any(name.startswith("__") and name not in (*_CALLED_AS_INSTANCE, "__iter__", *named) for name in own):
        return None
    taken, plain = _bound_outside(script, node), {name: name.removeprefix("__").removesuffix("__") for name in own}
    return {name: cst.Name(f"{new}_" if new in taken else new) for name, new in plain.items()}


def _as_functions(
    methods: Sequence[cst.FunctionDef], names: Mapping[str, cst.Name]
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]] | None:
    """Return the methods as functions and what `__init__` does, with variables for attributes; None if `self` stays."""
    functions: list[cst.BaseStatement] = []
    state: list[cst.BaseStatement] = []
    for method in methods:
        first, function = _bound_to(method)
        body = changed(method.body, _attributes(m.findall(method.body, m.Attribute(m.Name(first))), names))
        if not isinstance(body, cst.IndentedBlock) or uses_of(body, first):
            return None
        if m.matches(method, _INIT):
            state += (line for line in body.body if not m.matches(line, _INIT_OF_BASE))
        else:
            blank = [cst.EmptyLine(indent=False)] * 2
            functions.append(function.with_changes(name=names[method.name.value], body=body, leading_lines=blank))
    return functions, state


def _attributes(
    nodes: Iterable[cst.CSTNode], names: Mapping[str, cst.Name]
) -> dict[cst.CSTNode, Sequence[cst.CSTNode]]:
    """Return those of the nodes that read one of these attributes, each with the variable in its place."""
    read = (node for node in nodes if isinstance(node, cst.Attribute) and node.attr.value in names)
    return {node: [names[node.attr.value]] for node in read}


def _bound_outside(script: Script, node: cst.ClassDef) -> set[str]:
    """Return the names of variables, functions and imports that are bound outside of a class."""
    inside = set(m.findall(node, m.Name()))
    methods = {each for found in m.findall(script.module, m.ClassDef()) for each in found.body.body}  # type: ignore[attr-defined]
    names = (name for name in m.findall(script.module, m.Name()) if name not in inside)
    targets = m.findall(script.module, m.AssignTarget())
    among = {
        each.value for target in targets for each in m.findall(target, m.Element()) if isinstance(each, cst.Element)
    }
    bound = (name for name in names if name in among or isinstance(script.parent[name], _BINDERS))
    return {name.value for name in bound if script.parent[name] not in methods and isinstance(name, cst.Name)}


_MODULE = m.SaveMatchedNode(m.Name() | m.Attribute(), "module")
_COMPILED_IN_PLACE = m.Expr(m.SaveMatchedNode(m.Call(m.Attribute(_MODULE, m.Name("compile"))), "call"))
_ASSIGNED = m.SimpleStatementLine([m.Assign([m.AssignTarget(m.SaveMatchedNode(m.Name(), "name"))])])
_BINDERS = cst.AssignTarget, cst.FunctionDef, cst.ClassDef, cst.AsName, cst.ImportAlias
_OF_SELF = m.Parameters([m.AtLeastN(n=1)], posonly_params=[])
_METHOD = m.FunctionDef(params=_OF_SELF, decorators=[])
_INIT = m.FunctionDef(m.Name("__init__"), _OF_SELF)
_INIT_OF_BASE = m.SimpleStatementLine([CALL_OF_BASE])
_ONLY_PASS = m.IndentedBlock([m.SimpleStatementLine([m.Pass()])])
_ONLY_A_BASE = m.ClassDef(body=_ONLY_PASS, bases=[m.Arg(keyword=None)], keywords=[], decorators=[])


# Name what an import binds by its module.


def qualified(script: Script) -> Iterator[Edit]:
    """Write `c` as `a.b.c`, and leave out `from a.b import c`, where `a.b` is imported too.

    `import torch` imports many of torch's modules; in a probe, others are loaded which a fresh interpreter lacks.
    """
    imports = (node for node in script.nodes if isinstance(node, cst.Import))
    roots = {dotted(alias.name) for node in imports for alias in node.names if alias.asname is None}
    known = roots | (loaded_with_torch() if "torch" in roots else frozenset())
    for line in script.module.body:
        node = line.body[0] if isinstance(line, _Line) and len(line.body) == 1 else None
        paths = _paths(node) if isinstance(node, (cst.Import, cst.ImportFrom)) else {}
        uses = {name: script.uses(name) for name in paths}
        is_known = all(path in known or path.rpartition(".")[0] in known for path in paths.values())
        if paths and is_known and all(len(each) <= _MAX_QUALIFIED_USES for each in uses.values()):
            full: dict[cst.CSTNode, list[cst.CSTNode]] = {
                use: [cst.parse_expression(paths[name])] for name, each in uses.items() for use in each
            }
            yield Edit({line: [], **full})


def _paths(node: cst.Import | cst.ImportFrom) -> dict[str, str]:
    """Return {name: dotted path} of `from a import b` or `import a as b`; empty for a star or a relative import."""
    if isinstance(node, cst.ImportFrom):
        if isinstance(node.names, cst.ImportStar) or node.relative or node.module is None:
            return {}
        module = dotted(node.module)
        return {a.evaluated_alias or a.evaluated_name: f"{module}.{a.evaluated_name}" for a in node.names}
    if all(alias.asname is not None for alias in node.names):
        return {alias.evaluated_alias or "": alias.evaluated_name for alias in node.names}
    return {}


# Drop a parameter that nothing reads.


def without_parameters(script: Script) -> Iterator[Edit]:
    """Drop a parameter that its function does not read, and its arguments in calls of the function.

    One that all calls give the same constant or definition is dropped as well, with that in its place; not if they give
    it a variable: a function that reads none can be inlined.
    """
    definitions = {node.name.value for node in script.nodes if isinstance(node, (cst.FunctionDef, cst.ClassDef))}
    fixed = {"", *script.imported, *definitions}
    for node in script.nodes:
        if not isinstance(node, cst.FunctionDef):
            continue
        around = script.parent.get(script.parent[node])
        is_method = isinstance(around, cst.ClassDef) and not any(
            m.matches(each.decorator, m.Name("staticmethod")) for each in node.decorators
        )
        params = [*node.params.posonly_params, *node.params.params]
        calls = list(_calls(script, node, around.name.value if isinstance(around, cst.ClassDef) else ""))
        has_star = any(arg.star for call in calls for arg in call.args)
        for position, param in enumerate([*params, *node.params.kwonly_params]):
            name = param.name.value
            if (is_method and not position) or name == "backend":
                continue
            place = position - is_method if position < len(params) else -1
            gone = [arg for call in calls for i, arg in enumerate(call.args) if _goes_to(arg, i, name, place)]
            read = uses_of(node.body, name)
            is_same = len(gone) == len(calls) and len({script.code(arg.value) for arg in gone}) == 1 and not has_star
            if not read or (is_same and _is_plain(gone[0].value) and dotted(gone[0].value).partition(".")[0] in fixed):
                put = _puts(script, read, gone[0].value) if read else {}
                yield Edit({node.params: [_without_one(node.params, param)], **{arg: [] for arg in gone}, **put})


def _without_one(params: cst.Parameters, gone: cst.Param) -> cst.Parameters:
    groups: dict[str, Any] = {
        name: [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in getattr(params, name) if each is not gone]
        for name in ("posonly_params", "params", "kwonly_params")
    }
    is_bare = isinstance(params.star_arg, cst.ParamStar) and not groups["kwonly_params"]
    star = cst.MaybeSentinel.DEFAULT if is_bare else params.star_arg
    indicator = params.posonly_ind if groups["posonly_params"] else cst.MaybeSentinel.DEFAULT
    return params.with_changes(star_arg=star, posonly_ind=indicator, **groups)


def _goes_to(arg: cst.Arg, number: int, name: str, place: int) -> bool:
    return arg.keyword.value == name if arg.keyword is not None else number == place and not arg.star


def _calls(script: Script, function: cst.FunctionDef, of_class: str) -> Iterator[cst.Call]:
    """Yield the calls that may be of a function: by its name, by its class's, and by names that are made of these."""
    name = function.name.value
    is_instance = of_class != "" and name in _CALLED_AS_INSTANCE
    root = of_class if is_instance or name == "__init__" else name
    made = set[str]() if name == "__init__" or (of_class and not is_instance) else _made_of(script, root)
    names = {name if is_instance else root, *made}
    for call in script.nodes:
        if isinstance(call, cst.Call) and call not in script.compiling:
            mentioned = set(map(_last_name, m.findall(call.func, m.Name() | m.Attribute())))
            is_made = isinstance(call.func, cst.Call) and bool(mentioned & {root, *made})  # `grad(f)(x)`, `Net()(x)`
            if (is_made and name != "__init__") or _last_name(call.func) in names:
                yield call


def _made_of(script: Script, root: str) -> set[str]:
    """Return the names that are assigned an expression with `root`, or with another of these names."""
    bound: list[tuple[str, set[str]]] = []
    for node in script.nodes:
        if isinstance(node, (cst.Assign, cst.For)):
            value, targets = (node.iter, [node]) if isinstance(node, cst.For) else (node.value, node.targets)
            mentioned = set(map(_last_name, m.findall(value, m.Name() | m.Attribute())))
            bound += [(_last_name(each.target), mentioned) for each in targets]
    names = {root}
    while more := {name for name, mentioned in bound if mentioned & names} - names:
        names |= more
    return names - {root, ""}


def _last_name(node: cst.CSTNode) -> str:
    """Return the name, or that of the attribute; "" for another expression."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


# Shrink a value.


def ones(script: Script) -> Iterator[Edit]:
    """Put 1 in the place of an argument or an assigned value that is no literal."""
    for node in script.nodes:
        if isinstance(node, (cst.Arg, cst.Assign)) and node not in script.compiled:
            is_base = isinstance(script.parent[node], cst.ClassDef)
            is_starred = isinstance(node, cst.Arg) and bool(node.star)
            if not (is_base or is_starred or m.matches(node.value, _LITERAL) or node.value in script.compiling):
                yield Edit({node.value: [cst.Integer("1")]})


_LITERAL = m.Integer() | m.Float() | m.SimpleString() | m.Name("True") | m.Name("False") | m.Name("None")


_FIRST_TRIED = (1, 2, 3)  # of integers; then their range is halved


def smaller_numbers(take: Callable[[str], bool], script: Callable[[], Script]) -> None:
    """Make each number 1, or the smallest that fails: all that are equal at once, then each by itself.

    `take` probes a text and makes it the source, if that keeps the failure. Raises what `take` raises.
    """
    for is_single in (False, True):
        texts = [node.value for node in _numbers(script())]
        repeated = {text for text in texts if texts.count(text) > 1}
        places = [[i] for i, text in enumerate(texts) if text in repeated]
        if not is_single:
            places = [[i for i, other in enumerate(texts) if other == text] for text in dict.fromkeys(texts)]
        for numbers in places:
            _shrink(numbers, is_single, take, script)


def _shrink(places: Sequence[int], is_single: bool, take: Callable[[str], bool], script: Callable[[], Script]) -> None:
    def put(text: str) -> bool:
        found = _numbers(script())
        new = script().after([Edit({found[i]: [cst.parse_expression(text)] for i in places})])  # 1.5 may become 2
        return new is not None and take(new)

    value = _numbers(script())[places[0]].value
    if not value.isdigit():
        known = ast.literal_eval(value)
        for number in ("1.0", "0.5", f"{float(known):.1g}"):
            if len(number) <= len(value) and known not in (0, 1, float(number)) and put(number):
                return
        return
    for smallest in _FIRST_TRIED:
        if smallest < int(value) and put(str(smallest)):
            return
    low, high = _FIRST_TRIED[-1], int(value) - 1
    if is_single or high <= low or not put(str(high)):  # the next smaller first: most numbers cannot be smaller
        return
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if put(str(middle)) else (middle, high)


def _numbers(script: Script) -> list[cst.Integer | cst.Float]:
    return [node for node in script.nodes if isinstance(node, (cst.Integer, cst.Float))]


# What changes no statement.

_MAX_CHARACTERS = 8  # of a name that stays
_FUNCTIONS, _CLASSES, _VARIABLES = "fghpqrs", "ABCDEFG", "xyzabcuvwnmkij"


def short_names(script: Script) -> Iterator[Edit]:
    """Rename each long name of the script's own, everywhere at once.

    Names that are imported, bound in a class, or read as an attribute or a keyword anywhere, stay.
    """
    uses, bound, fixed = defaultdict[str, list[cst.Name]](list), dict[str, str](), {*script.imported}
    in_imports = {name for node in m.findall(script.module, _IMPORT) for name in m.findall(node, m.Name())}
    for name in m.findall(script.module, m.Name()):
        parent = script.parent[name]
        if name in in_imports or not isinstance(name, cst.Name):
            continue
        if _is_keyword(parent, name) or (isinstance(parent, cst.Attribute) and parent.attr is name):
            fixed.add(name.value)
            continue
        uses[name.value].append(name)
        if letters := _letters(script, name):
            bound.setdefault(name.value, letters)
            around = script.parent.get(script.parent[script.line(name)])
            fixed |= {name.value} if isinstance(around, cst.ClassDef) and not isinstance(parent, cst.Param) else set()
    taken = {*uses, *fixed, *dir(builtins), *keyword.kwlist}
    for long, letters in bound.items():
        new = next((choice for choice in letters if choice not in taken), None)
        if new is None or len(long) <= _MAX_CHARACTERS or long in fixed or long.startswith("__"):
            continue
        taken.add(new)
        renamed: dict[cst.CSTNode, list[cst.CSTNode]] = {use: [use.with_changes(value=new)] for use in uses[long]}
        yield Edit(renamed, ((long, new),) if letters is _FUNCTIONS else ())


_IMPORT = m.Import() | m.ImportFrom()


def _letters(script: Script, name: cst.Name) -> str:
    """Return the letters to choose from for a name that is bound here; "" for one that is read."""
    node: cst.CSTNode = name
    while isinstance(parent := script.parent[node], (cst.BaseElement, cst.Tuple, cst.List)):
        node = parent
    if isinstance(parent, (cst.FunctionDef, cst.ClassDef)):
        return _FUNCTIONS if isinstance(parent, cst.FunctionDef) else _CLASSES
    is_target = isinstance(parent, cst.For) and parent.target is node
    is_target = is_target or isinstance(parent, (cst.AssignTarget, cst.AsName))
    return _VARIABLES if is_target or (isinstance(parent, cst.Param) and parent.name is node) else ""


def without_comments(script: Script) -> Iterator[Edit]:
    """Remove the comments, if any: they describe the original script."""
    changes: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for node in script.nodes:
        if isinstance(node, cst.EmptyLine) and node.comment is not None:
            changes[node] = []
        elif isinstance(node, cst.TrailingWhitespace) and node.comment is not None:
            changes[node] = [node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))]
    if changes:
        yield Edit(changes)
