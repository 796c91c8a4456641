"""A module's statements: what each binds, reads and changes when the module is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import (
    BuiltinAssignment,
    GlobalScope,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    Scope,
    ScopeProvider,
)


@dataclass(eq=False)
class Statement:
    """One that is kept or dropped as a whole; of an `if` each statement of its branches is one.

    `binds` are the module's names that it gives a value to, `imports` those of them that are imported; `reads` all
    names of the module that it mentions, in the bodies of functions too; `unbound` names that nothing in the module
    binds; `changes` names whose object it changes or registers something with; `calls` names that it calls when it is
    run (classes that it inherits from too), `alters` names whose objects the functions in it change when they are;
    `hands_over` names that a call for its effect alone is given; `strings` what it says literally; `own` names of
    loops, `with` and `except`, which it reads after it has bound them.
    """

    node: cst.BaseStatement
    last_line: int
    tests: tuple[cst.If, ...] = ()
    binds: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    unbound: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    alters: set[str] = field(default_factory=set)
    hands_over: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)

    @property
    def is_star_import(self) -> bool:
        """Whether it is `from module import *`."""
        return any(isinstance(part.names, cst.ImportStar) for part in self.parts if isinstance(part, cst.ImportFrom))

    @property
    def is_future_import(self) -> bool:
        """Whether it is `from __future__ import ...`."""
        return any(
            isinstance(part, cst.ImportFrom) and part.module is not None and dotted(part.module) == "__future__"
            for part in self.parts
        )

    @property
    def parts(self) -> tuple[cst.BaseSmallStatement, ...]:
        """The small statements of a line; none of a compound one."""
        return tuple(self.node.body) if isinstance(self.node, cst.SimpleStatementLine) else ()


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` as text; empty for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return head and f"{head}.{node.attr.value}"
    return ""


def root(node: cst.CSTNode) -> str:
    """The name that an expression like `a.b[0].c(...)` begins with; empty if it begins with something else."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""


class _Effects(cst.CSTVisitor):
    """What running a statement does to objects that it does not make; bodies of functions are not run."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.depth = 0

    def _is_run(self) -> bool:
        return self.depth == 0

    def _enter(self, decorators: tuple[cst.Decorator, ...]) -> None:
        self._decorated(decorators)
        self.depth += 1

    def _decorated(self, decorators: Sequence[cst.Decorator]) -> None:
        if self._is_run():
            found = {root(each.decorator) for each in decorators} - {""}
            self.statement.changes |= found
            self.statement.calls |= found

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._enter(tuple(node.decorators))

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.depth -= 1

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.depth += 1

    def leave_Lambda(self, original_node: cst.Lambda) -> None:
        self.depth -= 1

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._decorated(node.decorators)
        if self._is_run():
            self.statement.calls |= {root(base.value) for base in (*node.bases, *node.keywords)} - {""}

    def visit_Call(self, node: cst.Call) -> None:
        if self._is_run():
            self.statement.calls |= {root(node.func)} - {""}

    def visit_Global(self, node: cst.Global) -> None:
        names = {item.name.value for item in node.names}
        self.statement.alters |= names
        self.statement.reads |= names

    def _target(self, node: cst.CSTNode) -> None:
        if isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                self._target(element.value)
        elif isinstance(node, (cst.Attribute, cst.Subscript)):
            (self.statement.changes if self._is_run() else self.statement.alters).update({root(node)} - {""})

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._target(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._target(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._target(node.target)
        if isinstance(node.target, cst.Name) and self._is_run():
            self.statement.changes.add(node.target.value)

    def visit_For(self, node: cst.For) -> None:
        self._own(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._own(node.name)

    def _own(self, target: cst.CSTNode) -> None:
        """Notes a name that the statement gives a value to before it reads it."""
        if self._is_run() and isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._own(element.value)
        elif self._is_run() and isinstance(target, cst.Name):
            self.statement.own.add(target.value)

    def visit_Del(self, node: cst.Del) -> None:
        self._target(node.target)

    def visit_Expr(self, node: cst.Expr) -> None:
        call = node.value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and not self._is_run():
            self.statement.alters |= {root(call.func)} - {""}
        if not isinstance(call, cst.Call) or not self._is_run():
            return
        if isinstance(call.func, cst.Attribute):
            self.statement.changes |= {root(call.func)} - {""}
        while isinstance(call, cst.Call):  # register(name="x")(fn)
            for argument in call.args:
                value = argument.value
                if isinstance(value, cst.Name):
                    self.statement.hands_over.add(value.value)
                elif isinstance(value, cst.SimpleString) and isinstance(value.evaluated_value, str):
                    self.statement.hands_over.add(value.evaluated_value)
            call = call.func

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        text = ast.literal_eval(node.value)
        if isinstance(text, str):
            self.statement.strings.add(text)


def _leaves(body: tuple[cst.BaseStatement, ...], tests: tuple[cst.If, ...]) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, cst.If) and isinstance(node.body, cst.IndentedBlock):
            branch: cst.If | cst.Else | None = node
            above = tests
            while branch is not None:
                if isinstance(branch, cst.If):
                    above = (*above, branch)
                if isinstance(branch.body, cst.IndentedBlock):
                    yield from _leaves(tuple(branch.body.body), above)
                branch = branch.orelse if isinstance(branch, cst.If) else None
        else:
            yield Statement(node, 0, tests)


class ModuleStatements:
    """A parsed module. Raises libcst.ParserSyntaxError for source that is not Python."""

    def __init__(self, source: str) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source))
        self.tree = wrapper.module
        self._parents = wrapper.resolve(ParentNodeProvider)
        positions = wrapper.resolve(PositionProvider)
        self.statements = list(_leaves(tuple(self.tree.body), ()))
        self._owners: dict[cst.CSTNode, Statement] = {each.node: each for each in self.statements}
        self._tests = {test for each in self.statements for test in each.tests}
        self.reads_of_tests: dict[cst.If, set[str]] = {}
        for each in self.statements:
            each.last_line = positions[each.node].end.line
            each.node.visit(_Effects(each))
        scopes = {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}
        for scope in scopes:
            self._note(scope)
        self._follow_calls()

    def _follow_calls(self) -> None:
        """Adds what a statement changes through the functions that it calls, and those that these mention."""
        by_name: dict[str, list[Statement]] = {}
        for each in self.statements:
            each.alters &= each.reads | each.binds
            for name in each.binds - each.imports:
                by_name.setdefault(name, []).append(each)
        for each in self.statements:
            reached: set[Statement] = set()
            left = [maker for name in each.calls for maker in by_name.get(name, ())]
            while left:
                maker = left.pop()
                if maker not in reached:
                    reached.add(maker)
                    each.changes |= maker.alters
                    left += [other for name in maker.reads for other in by_name.get(name, ())]

    def _owner(self, node: cst.CSTNode) -> tuple[Statement | None, cst.If | None]:
        """The statement that a node is part of, or the `if` whose test it is part of."""
        below: cst.CSTNode = node
        while node not in self._owners:
            if node not in self._parents:
                return None, None
            below, node = node, self._parents[node]
            if isinstance(node, cst.If) and below is node.test and node in self._tests:
                return None, node
        return self._owners[node], None

    def _runs_at_import(self, node: cst.CSTNode) -> bool:
        """Whether a name bound at this node is bound when the module is run, and not by a function's `global`."""
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                return False
        return True

    def _note(self, scope: Scope) -> None:
        if isinstance(scope, GlobalScope):
            for assignment in scope.assignments:
                node = getattr(assignment, "node", None)
                if node is None:
                    continue
                owner, _ = self._owner(node)
                if owner is not None and self._runs_at_import(node):
                    owner.binds.add(assignment.name)
                    if isinstance(node, (cst.Import, cst.ImportFrom)):
                        owner.imports.add(assignment.name)
        for access in scope.accesses:
            owner, test = self._owner(access.node)
            name = root(access.node)
            if not name:
                continue
            of_module = any(isinstance(each.scope, GlobalScope) for each in access.referents)
            known = any(isinstance(each, BuiltinAssignment) for each in access.referents)
            if test is not None:
                self.reads_of_tests.setdefault(test, set()).add(name)
            elif owner is not None and of_module and name not in owner.own:
                owner.reads.add(name)
            elif owner is not None and not access.referents and not known:
                owner.unbound.add(name)
