"""Remove parameters of the script's own functions, together with the arguments in calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from libcst import matchers as m

from minifier.source.put_value import Edited, applied, uses_of

_CALLED_AS_INSTANCE = ("forward", "__call__")
_STATIC = m.Name("staticmethod")


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the module, and the names under which calls reach it.

    `is_bound`: a method whose calls leave out the first parameter. `call_name` is the function's name in calls; for
    `__init__` the name of the class. `root` is the function's name; for `forward` and `__call__` the name of the class.
    `made` are names assigned from `root`, like `made = grad(root)`.
    """

    node: cst.FunctionDef
    call_name: str
    is_bound: bool
    root: str
    made: frozenset[str]

    def is_called_by(self, func: cst.BaseExpression) -> bool:
        """Return whether a call of this expression calls the function, like `f`, `made`, `model.f` or `grad(f)`."""
        if isinstance(func, cst.Call):
            return any(uses_of(func, name) for name in (self.root, *self.made))
        name = func.value if isinstance(func, cst.Name) else func.attr.value if isinstance(func, cst.Attribute) else ""
        return name == self.call_name or (isinstance(func, cst.Name) and name in self.made)


class _Functions(cst.CSTVisitor):
    """Collects a module's functions."""

    def __init__(self, module: cst.Module) -> None:
        self.found: list[_Function] = []
        self._assignments = _assignments(module)
        self._classes: list[str] = []  # names of the enclosing classes
        self._depths: list[int] = []  # function depth at each of them
        self._depth = 0

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._classes.append(node.name.value)
        self._depths.append(self._depth)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._classes.pop()
        self._depths.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        name = call_name = root = node.name.value
        is_method = bool(self._classes) and self._depths[-1] == self._depth
        if is_method and name == "__init__":
            call_name = self._classes[-1]
        elif is_method and name in _CALLED_AS_INSTANCE:
            root = self._classes[-1]
        made = frozenset() if is_method and root == name else _made_of(root, self._assignments)
        is_bound = is_method and not any(m.matches(each.decorator, _STATIC) for each in node.decorators)
        self.found.append(_Function(node, call_name, is_bound, root, made))
        self._depth += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._depth -= 1


def _assignments(module: cst.Module) -> list[tuple[str, cst.BaseExpression]]:
    return [
        (target.target.value, node.value)
        for node in m.findall(module, m.Assign())
        if isinstance(node, cst.Assign)
        for target in node.targets
        if isinstance(target.target, cst.Name)
    ]


def _made_of(root: str, assignments: Sequence[tuple[str, cst.BaseExpression]]) -> frozenset[str]:
    """Return the names that are assigned an expression with `root`, or with another of these names."""
    names = {root}
    while more := {name for name, value in assignments if any(uses_of(value, each) for each in names)} - names:
        names |= more
    return frozenset(names - {root})


class _RemoveParameter(cst.CSTTransformer):
    """Removes the parameter at `index`, and the argument at `position` in calls of the function.

    The arguments may come from a display: `f(*[x, y])`, or `xs = x, y` ahead of `f(*xs)`.
    """

    def __init__(self, function: _Function, index: int, module: cst.Module) -> None:
        super().__init__()
        self.function, self.index, self.position = function, index, index - int(function.is_bound)
        self.parameter = function.node.params.params[index].name.value
        self.module = module

    @cached_property
    def displays(self) -> set[str]:
        """The names of displays that calls of the function take their arguments from."""
        return {
            call.args[0].value.value
            for call in m.findall(self.module, m.Call(args=[m.Arg(star="*", value=m.Name()), m.ZeroOrMore()]))
            if isinstance(call, cst.Call) and isinstance(call.args[0].value, cst.Name)
            if self.function.is_called_by(call.func)
        }

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if original_node is not self.function.node:
            return updated_node
        params = updated_node.params
        rest = [param for i, param in enumerate(params.params) if i != self.index]
        return updated_node.with_changes(params=params.with_changes(params=_without_last_comma(rest)))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if not self.function.is_called_by(original_node.func):
            return updated_node
        rest = [arg for i, arg in enumerate(updated_node.args) if not self._is_argument(i, arg)]
        if rest and rest[0].star == "*":
            rest[0] = rest[0].with_changes(value=self._shorter(rest[0].value))
        return updated_node.with_changes(args=_without_last_comma(rest))

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        targets = {target.target.value for target in original_node.targets if isinstance(target.target, cst.Name)}
        return (
            updated_node.with_changes(value=self._shorter(updated_node.value))
            if targets & self.displays
            else updated_node
        )

    def _shorter(self, display: cst.BaseExpression) -> cst.BaseExpression:
        if not isinstance(display, (cst.Tuple, cst.List)):
            return display
        rest = [element for i, element in enumerate(display.elements) if i != self.position]
        if len(rest) == 1 and isinstance(display, cst.Tuple):
            return display.with_changes(elements=[rest[0].with_changes(comma=cst.Comma())])
        return display.with_changes(elements=_without_last_comma(rest))

    def _is_argument(self, position: int, arg: cst.Arg) -> bool:
        if arg.keyword is not None:
            return arg.keyword.value == self.parameter
        return position == self.position and not arg.star


def _without_last_comma(nodes: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    return [*nodes[:-1], *(node.with_changes(comma=cst.MaybeSentinel.DEFAULT) for node in nodes[-1:])]


def without_parameters(module: cst.Module) -> Iterator[Edited]:
    """Yield the module without a parameter, for each parameter of its functions except `self`."""
    visitor = _Functions(module)
    module.visit(visitor)
    for function in visitor.found:
        for index in range(int(function.is_bound), len(function.node.params.params)):
            if function.node.params.params[index].name.value == "backend":  # calls without it have another backend
                continue
            yield from applied(module, _RemoveParameter(function, index, module))
