"""The edit that merges a base class of the script into its only subclass."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from minifier.source.inlining import arguments_of, statements_for_call
from minifier.source.put_value import Changes, Edited, applied, changed, uses_of


def without_bases(module: cst.Module) -> Iterator[Edited]:
    """Yield the module without a base class, for each class that a single other class reads, as its only base."""
    classes = {node.name.value: node for node in module.body if isinstance(node, cst.ClassDef) and not node.decorators}
    for node in classes.values():
        base = classes.get(_only_base(node))
        if base is None or len(uses_of(module, base.name.value)) != 1 or base.name.value == node.name.value:
            continue
        merged = _merged(node, base)
        if merged is not None:
            yield from applied(module, Changes({base: [], node: [merged]}))


def _only_base(node: cst.ClassDef) -> str:
    value = node.bases[0].value if len(node.bases) == 1 and not node.keywords else None
    return value.value if isinstance(value, cst.Name) else ""


def _merged(node: cst.ClassDef, base: cst.ClassDef) -> cst.ClassDef | None:
    """Return the class with what it inherits; None if a call of the base's method cannot be replaced by its body."""
    if not isinstance(node.body, cst.IndentedBlock) or not isinstance(base.body, cst.IndentedBlock):
        return None
    own = {each.name.value: each for each in node.body.body if isinstance(each, cst.FunctionDef)}
    body: list[cst.BaseStatement] = []
    for statement in base.body.body:
        overriding = own.get(statement.name.value) if isinstance(statement, cst.FunctionDef) else None
        if overriding is None:
            body.append(statement)
            continue
        assert isinstance(statement, cst.FunctionDef)
        with_base = _with_body_of_base(overriding, statement)
        if with_base is None:
            return None
        own[statement.name.value] = with_base
    kept = (own[each.name.value] if isinstance(each, cst.FunctionDef) else each for each in node.body.body)
    return node.with_changes(
        bases=base.bases,
        keywords=base.keywords,
        lpar=base.lpar,
        rpar=base.rpar,
        body=node.body.with_changes(body=[*body, *kept]),
    )


def _with_body_of_base(method: cst.FunctionDef, inherited: cst.FunctionDef) -> cst.FunctionDef | None:
    """Return the method with the inherited method's body in place of its call by `super()`; None if that cannot be."""
    of_base = m.Attribute(value=m.Call(func=m.Name("super")), attr=m.Name(method.name.value))
    lines = [line for line in m.findall(method, m.SimpleStatementLine()) if m.findall(line, of_base)]
    if not lines:
        return method
    calls = [call for line in lines for call in m.findall(line, m.Call(func=of_base)) if isinstance(call, cst.Call)]
    if len(calls) != 1:
        return None
    rest = inherited.params.with_changes(params=inherited.params.params[1:])
    values = arguments_of(inherited.with_changes(params=rest), calls[0])
    statements = None if values is None else statements_for_call(lines[0], calls[0], inherited, values)
    result = None if statements is None else changed(method, Changes({lines[0]: statements}))
    return result if isinstance(result, cst.FunctionDef) else None
