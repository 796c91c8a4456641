"""Edits that take classes away: in their place come functions and variables, the base, or one of the attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers as m

from minifier.repro.source.inlining import arguments_of, with_values
from minifier.repro.source.patches import Changes, Edited, applied, put_value

_FORWARD = "forward"
_SELF = m.Name("self")
_EMPTY = m.IndentedBlock(body=[m.SimpleStatementLine(body=[m.Pass()])])
_INIT = m.FunctionDef(name=m.Name("__init__"))
_CALL_OF_SUPER = m.Attribute(value=m.Call(func=m.Name("super")))


def classes_as_functions(module: cst.Module) -> Iterator[Edited]:
    """Yield the module with the methods of a class as functions, for each class that has nothing but methods.

    `forward` takes the place of the class's instances. The statements of `__init__` run ahead of the functions, with
    the defaults of its parameters.
    """
    for node in module.body:
        if not isinstance(node, cst.ClassDef) or not isinstance(node.body, cst.IndentedBlock):
            continue
        methods = [each for each in node.body.body if isinstance(each, cst.FunctionDef)]
        if not methods or len(methods) != len(node.body.body):
            continue
        names = {method.name.value for method in methods}
        init = next((method for method in methods if method.name.value == "__init__"), None)
        has_state = init is not None and not all(param.default is not None for param in init.params.params[1:])
        if has_state or not (_FORWARD in names or not any(name.startswith("__") for name in names)):
            continue
        yield from applied(module, _AsFunctions(module, node, methods))


class _AsFunctions(cst.CSTTransformer):
    def __init__(self, module: cst.Module, kind: cst.ClassDef, methods: Sequence[cst.FunctionDef]) -> None:
        super().__init__()
        self.kind, self.name = kind, kind.name.value
        self.names = {method.name.value for method in methods} - {"__init__"}
        self.forward = _FORWARD
        if any(m.matches(node, m.FunctionDef(name=m.Name(_FORWARD))) for node in module.body):
            self.forward = f"{_FORWARD}_of_{self.name.lower()}"
        self.state = {
            node.attr.value
            for method in methods
            if method.name.value == "__init__"
            for target in m.findall(method, m.AssignTarget())
            for node in m.findall(target, m.Attribute(value=_SELF))
            if isinstance(node, cst.Attribute)
        }
        made = m.Assign(targets=[m.AssignTarget(target=m.Name())], value=m.Call(func=m.Name(self.name)))
        self.instances = {
            target.value
            for node in m.findall(module, made)
            if isinstance(node, cst.Assign) and isinstance(target := node.targets[0].target, cst.Name)
        }
        self.is_inside = False

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.is_inside = self.is_inside or node is self.kind

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef | cst.FlattenSentinel[cst.BaseStatement]:
        if original_node is not self.kind:
            return updated_node
        self.is_inside = False
        blank = [cst.EmptyLine(indent=False)] * 2
        statements: list[cst.BaseStatement] = []
        for method in updated_node.body.body:
            assert isinstance(method, cst.FunctionDef)
            if method.name.value == "__init__":
                statements[:0] = _statements(method)
                continue
            name = self.forward if method.name.value == _FORWARD else method.name.value
            statements.append(_as_function(method).with_changes(leading_lines=blank, name=cst.Name(name)))
        return cst.FlattenSentinel(statements)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        name, of = original_node.attr.value, original_node.value
        if self.is_inside and m.matches(of, _SELF):
            return self._method(name) if name in self.names else cst.Name(name) if name in self.state else updated_node
        is_instance = isinstance(of, cst.Name) and of.value in self.instances
        is_instance = is_instance or m.matches(of, m.Call(func=m.Name(self.name)))
        return self._method(name) if is_instance and name in self.names else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = original_node.func
        made = m.Call(func=m.Name(self.name))
        is_set = m.matches(func, m.Attribute(value=made, attr=m.Name("eval") | m.Name("train")))
        is_instance = _FORWARD in self.names and (m.matches(func, m.Name(self.name)) or is_set)
        return cst.Name(self.forward) if is_instance else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        made = m.SimpleStatementLine([m.Assign(value=m.Call(func=m.Name(self.name)))])
        is_gone = _FORWARD not in self.names and m.matches(original_node, made)
        return cst.RemoveFromParent() if is_gone else updated_node

    def _method(self, name: str) -> cst.Name:
        return cst.Name(self.forward if name == _FORWARD else name)


def _statements(init: cst.FunctionDef) -> list[cst.BaseStatement]:
    """Return the statements of `__init__` without `super().__init__()`, its defaults as assignments ahead."""
    defaults = [
        cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(param.name)], param.default)])
        for param in init.params.params[1:]
        if param.default is not None
    ]
    of_base = m.SimpleStatementLine([m.Expr(m.Call(func=_CALL_OF_SUPER))])
    body = [line for line in init.body.body if isinstance(line, cst.BaseStatement) and not m.matches(line, of_base)]
    return [*defaults, *body]


def _as_function(method: cst.FunctionDef) -> cst.FunctionDef:
    """Return a method as a function, without its first parameter."""
    if any(m.matches(each.decorator, m.Name("staticmethod")) for each in method.decorators):
        return method.with_changes(decorators=[])
    return method.with_changes(params=method.params.with_changes(params=method.params.params[1:]))


def without_empty_classes(module: cst.Module) -> Iterator[Edited]:
    """Yield the module with the base of a class in its place, for each class without a body of its own."""
    for node in m.findall(module, m.ClassDef(body=_EMPTY, bases=[m.Arg()], keywords=[], decorators=[])):
        assert isinstance(node, cst.ClassDef)
        yield from applied(module, Changes({node: []}), put_value(node.name.value, node.bases[0].value))


def classes_as_attributes(module: cst.Module) -> Iterator[Edited]:
    """Yield the module with the value of an attribute in place of each instance of a class, for each attribute that
    its `__init__` assigns: `model.body.out` becomes `model.out`."""
    for node in module.body:
        init = next(iter(m.findall(node, _INIT)), None) if isinstance(node, cst.ClassDef) else None
        if not isinstance(init, cst.FunctionDef) or not isinstance(node, cst.ClassDef):
            continue
        for assign in m.findall(init, m.Assign(targets=[m.AssignTarget()])):
            assert isinstance(assign, cst.Assign)
            bound = assign.targets[0].target
            pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(bound, assign.value)]
            if isinstance(bound, cst.Tuple) and isinstance(assign.value, cst.Tuple):
                pairs = [(a.value, b.value) for a, b in zip(bound.elements, assign.value.elements, strict=False)]
            for target, value in pairs:
                if isinstance(target, cst.Attribute) and m.matches(target.value, _SELF):
                    yield from applied(module, _AsAttribute(node, init, target.attr.value, value))


class _AsAttribute(cst.CSTTransformer):
    """Puts a value in the place of the instances of a class, and of their attribute."""

    def __init__(self, kind: cst.ClassDef, init: cst.FunctionDef, name: str, value: cst.BaseExpression) -> None:
        super().__init__()
        rest = init.params.with_changes(params=init.params.params[1:])
        self.kind, self.init, self.name, self.value = kind, init.with_changes(params=rest), name, value

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return node is not self.kind

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef | cst.RemovalSentinel:
        return cst.RemoveFromParent() if original_node is self.kind else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not m.matches(original_node.func, m.Name(self.kind.name.value)):
            return updated_node
        values = arguments_of(self.init, updated_node) or {}
        return with_values(self.value, values) or updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return updated_node.value if original_node.attr.value == self.name else updated_node
