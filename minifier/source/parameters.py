"""Remove parameters of the script's own functions, together with the arguments in calls."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst


class _Functions(cst.CSTVisitor):
    """Collects a module's functions: (definition, name in calls, whether it is a method)."""

    def __init__(self) -> None:
        self.functions: list[tuple[cst.FunctionDef, str, bool]] = []
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
        is_method = bool(self._classes) and self._depths[-1] == self._depth
        name = self._classes[-1] if is_method and node.name.value == "__init__" else node.name.value
        self.functions.append((node, name, is_method))
        self._depth += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._depth -= 1


class _RemoveParameter(cst.CSTTransformer):
    """Removes the parameter at `index`, and its argument in calls of `call_name`, where it is at `position`."""

    def __init__(self, function: cst.FunctionDef, call_name: str, index: int, position: int) -> None:
        super().__init__()
        self.function, self.call_name, self.index, self.position = function, call_name, index, position
        self.parameter = function.params.params[index].name.value

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if original_node is not self.function:
            return updated_node
        params = updated_node.params
        rest = [param for i, param in enumerate(params.params) if i != self.index]
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(params=params.with_changes(params=rest))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        func = original_node.func
        name = func.value if isinstance(func, cst.Name) else func.attr.value if isinstance(func, cst.Attribute) else ""
        if name != self.call_name:
            return updated_node
        rest = [arg for i, arg in enumerate(updated_node.args) if not self._is_argument(i, arg)]
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(args=rest)

    def _is_argument(self, position: int, arg: cst.Arg) -> bool:
        if arg.keyword is not None:
            return arg.keyword.value == self.parameter
        return position == self.position and not arg.star


def without_parameters(module: cst.Module) -> Iterator[cst.Module]:
    """Yield the module without one parameter, for each parameter of its functions except `self`."""
    visitor = _Functions()
    module.visit(visitor)
    for function, call_name, is_method in visitor.functions:
        for index in range(int(is_method), len(function.params.params)):
            yield module.visit(_RemoveParameter(function, call_name, index, index - int(is_method)))
