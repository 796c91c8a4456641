"""Parameters of the script's own functions, taken out together with the arguments that are given for them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst


class _Functions(cst.CSTVisitor):
    """The functions of a module: the definition, the name it is called by, and whether it has a `self`."""

    def __init__(self) -> None:
        self.found: list[tuple[cst.FunctionDef, str, bool]] = []
        self._classes: list[str] = []
        self._depths: list[int] = []
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
        self.found.append((node, name, is_method))
        self._depth += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._depth -= 1


class _Without(cst.CSTTransformer):
    """Takes out the parameter at `index`, and what calls of that name give for it."""

    def __init__(self, function: cst.FunctionDef, called: str, index: int, given: int) -> None:
        super().__init__()
        self.function, self.called, self.index, self.given = function, called, index, given
        self.name = function.params.params[index].name.value

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
        if name != self.called:
            return updated_node
        rest = []
        for i, arg in enumerate(updated_node.args):
            named = arg.keyword.value == self.name if arg.keyword is not None else i == self.given and not arg.star
            rest += [] if named else [arg]
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(args=rest)


def without_parameters(module: cst.Module) -> Iterator[cst.Module]:
    """The module without one parameter, for each that a function of its own has."""
    functions = _Functions()
    module.visit(functions)
    for function, called, is_method in functions.found:
        for index in range(int(is_method), len(function.params.params)):
            yield module.visit(_Without(function, called, index, index - int(is_method)))
