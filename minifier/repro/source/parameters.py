"""Remove parameters of the script's own functions, together with the arguments in calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst
from libcst import matchers as m

from minifier.repro.source.patches import Edited, applied, uses_of

_NodeT = TypeVar("_NodeT", bound=cst.CSTNode)
_CALLED_AS_INSTANCE = ("forward", "__call__")
_STATIC = m.Name("staticmethod")


@dataclass(frozen=True, slots=True)
class _DefinedFunction:
    """A function of the module, and the names under which calls reach it.

    `is_bound`: a method whose calls leave out the first parameter. `call_name` is the function's name in calls; for
    `__init__` the name of the class. `root` is the function's name; for `forward` and `__call__` the name of the class.
    `made` are names and attributes assigned from `root`, like `made = grad(root)`, or that a loop over these binds.
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
        name = _last_name(func)
        return name == self.call_name or name in self.made


class _Functions(cst.CSTVisitor):
    """Collects a module's functions."""

    def __init__(self, module: cst.Module) -> None:
        self.found: list[_DefinedFunction] = []
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
        self.found.append(_DefinedFunction(node, call_name, is_bound, root, made))
        self._depth += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._depth -= 1


def _assignments(module: cst.Module) -> list[tuple[str, cst.BaseExpression]]:
    """Return the names and attributes that are assigned, or bound by a loop, with what they are bound to."""
    found = []
    for node in m.findall(module, m.Assign() | m.For()):
        if isinstance(node, cst.Assign):
            found += [(_last_name(target.target), node.value) for target in node.targets]
        elif isinstance(node, cst.For):
            found.append((_last_name(node.target), node.iter))
    return [(name, value) for name, value in found if name]


def _last_name(node: cst.CSTNode) -> str:
    """Return the name, or that of the attribute; "" for another expression."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def _made_of(root: str, assignments: Sequence[tuple[str, cst.BaseExpression]]) -> frozenset[str]:
    """Return the names that are assigned an expression with `root`, or with another of these names."""
    names = {root}
    mentioned = [
        (name, set(map(_last_name, m.findall(value, m.Name() | m.Attribute())))) for name, value in assignments
    ]
    while more := {name for name, others in mentioned if others & names} - names:
        names |= more
    return frozenset(names - {root})


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter, and which arguments give its value.

    `position` is the parameter's place among the positional ones, if it is one. `takes_rest`: it stands behind `*` or
    `**`, and takes the arguments that no other parameter takes.
    """

    node: cst.Param
    position: int | None
    takes_rest: bool = False

    @property
    def name(self) -> str:
        return self.node.name.value


def _parameters(function: cst.FunctionDef) -> list[_Parameter]:
    params = function.params
    found = [_Parameter(node, place) for place, node in enumerate((*params.posonly_params, *params.params))]
    found += [_Parameter(node, None) for node in params.kwonly_params]
    stars = (params.star_arg, params.star_kwarg)
    return [*found, *(_Parameter(node, None, True) for node in stars if isinstance(node, cst.Param))]


def _without(params: cst.Parameters, gone: cst.Param) -> cst.Parameters:
    """Return the parameters of a function without one of them."""
    groups: dict[str, Any] = {
        name: [node for node in getattr(params, name) if node is not gone]
        for name in ("posonly_params", "params", "kwonly_params")
    }
    star = params.star_arg if isinstance(params.star_arg, cst.Param) and params.star_arg is not gone else None
    kwargs = None if params.star_kwarg is gone else params.star_kwarg
    if kwargs is None and groups["kwonly_params"]:
        groups["kwonly_params"] = _without_last_comma(groups["kwonly_params"])
    elif kwargs is None and star is not None:
        star = star.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    elif kwargs is None:
        groups["params"] = _without_last_comma(groups["params"])
    bare = cst.ParamStar() if groups["kwonly_params"] else cst.MaybeSentinel.DEFAULT
    return cst.Parameters(star_arg=star or bare, star_kwarg=kwargs, **groups)


class _RemoveParameter(cst.CSTTransformer):
    """Removes a parameter, and its arguments in calls of the function.

    The arguments may come from a display: `f(*[x, y])`, or `xs = x, y` ahead of `f(*xs)`.
    """

    def __init__(self, function: _DefinedFunction, parameter: _Parameter, module: cst.Module) -> None:
        super().__init__()
        self.function, self.parameter, self.module = function, parameter, module
        self.position = None if parameter.position is None else parameter.position - int(function.is_bound)

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
        return updated_node.with_changes(params=_without(original_node.params, self.parameter.node))

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
        if self.position is None or not isinstance(display, (cst.Tuple, cst.List)):
            return display
        rest = [element for i, element in enumerate(display.elements) if i != self.position]
        if len(rest) == 1 and isinstance(display, cst.Tuple):
            return display.with_changes(elements=[rest[0].with_changes(comma=cst.Comma())])
        return display.with_changes(elements=_without_last_comma(rest))

    def _is_argument(self, position: int, arg: cst.Arg) -> bool:
        """Return whether the argument at this position of a call goes to the parameter."""
        if self.parameter.takes_rest:
            others = [each for each in _parameters(self.function.node) if not each.takes_rest]
            is_of_keywords = self.function.node.params.star_kwarg is self.parameter.node
            if arg.keyword is not None or arg.star == "**":
                named = arg.keyword is not None and arg.keyword.value in {each.name for each in others}
                return is_of_keywords and not named
            count = sum(each.position is not None for each in others) - int(self.function.is_bound)
            return not is_of_keywords and position >= count
        if arg.keyword is not None:
            return arg.keyword.value == self.parameter.name
        return position == self.position and not arg.star


def _without_last_comma(nodes: Sequence[_NodeT]) -> list[_NodeT]:
    return [*nodes[:-1], *(node.with_changes(comma=cst.MaybeSentinel.DEFAULT) for node in nodes[-1:])]


def without_parameters(module: cst.Module) -> Iterator[Edited]:
    """Yield the module without a parameter, for each parameter that its function does not read, except `self`."""
    visitor = _Functions(module)
    module.visit(visitor)
    for function in visitor.found:
        for parameter in _parameters(function.node):
            is_own = function.is_bound and parameter.position == 0
            # calls without `backend` would have another backend
            if not is_own and parameter.name != "backend" and not uses_of(function.node.body, parameter.name):
                yield from applied(module, _RemoveParameter(function, parameter, module))
