"""A module's statements: the names that each binds, reads and mutates when the module runs."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import GlobalScope, MetadataWrapper, ParentNodeProvider, PositionProvider, Scope, ScopeProvider

_COMPILE = "torch.compile"


@dataclass(eq=False)
class Statement:
    """A statement that is kept or dropped as a whole; each statement in a branch of an `if` counts separately.

    The sets hold names of the module, except where noted.
    """

    node: cst.BaseStatement
    last_line: int
    tests: tuple[cst.If, ...] = ()  # the `if`s and `elif`s that decide whether it runs
    binds: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)  # a subset of `binds`
    reads: set[str] = field(default_factory=set)  # also in bodies of functions
    unbound: set[str] = field(default_factory=set)  # names that the module does not bind
    changes: set[str] = field(default_factory=set)  # names of objects that it mutates or registers something with
    calls: set[str] = field(default_factory=set)  # called when it runs; base classes and decorators too
    function_changes: set[str] = field(default_factory=set)  # names of objects that its functions mutate when called
    hands_over: set[str] = field(default_factory=set)  # arguments of a call whose result is unused
    compiles: bool = False  # it calls torch.compile, so that calls of what it binds are calls of the backend
    strings: set[str] = field(default_factory=set)  # values of string literals
    targets: set[str] = field(default_factory=set)  # bound by its own `for`, `with` or `except`

    @property
    def is_star_import(self) -> bool:
        """Whether the statement is `from module import *`."""
        return any(isinstance(small.names, cst.ImportStar) for small in self.small if isinstance(small, cst.ImportFrom))

    @property
    def is_definition(self) -> bool:
        """Whether the statement is a function or a class."""
        return isinstance(self.node, (cst.FunctionDef, cst.ClassDef))

    @property
    def is_future_import(self) -> bool:
        """Whether the statement is `from __future__ import ...`."""
        return any(
            isinstance(small, cst.ImportFrom) and small.module is not None and dotted(small.module) == "__future__"
            for small in self.small
        )

    @property
    def small(self) -> tuple[cst.BaseSmallStatement, ...]:
        """The small statements of a line; empty for a compound statement."""
        return tuple(self.node.body) if isinstance(self.node, cst.SimpleStatementLine) else ()


def names_of_definitions(statements: Iterable[Statement], applies: Callable[[Statement], bool]) -> set[str]:
    """Return the names of definitions to which the predicate applies, and of definitions that read these names."""
    definitions = [statement for statement in statements if statement.is_definition]
    names: set[str] = set()
    while more := {n for d in definitions if d.reads & names or applies(d) for n in d.binds} - names:
        names |= more
    return names


def dotted(node: cst.CSTNode) -> str:
    """Return `a.b.c` as text; empty for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return head and f"{head}.{node.attr.value}"
    return ""


def bound_by(alias: cst.ImportAlias) -> str:
    """Return the name that `import a.b` or `import a.b as c` binds."""
    return alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def root(node: cst.CSTNode) -> str:
    """Return the first name of an expression like `a.b[0].c(...)`; empty if there is no name."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""


class _Effects(cst.CSTVisitor):
    """Records a statement's effects on existing objects. Function bodies do not run with the statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.depth = 0  # of functions

    def _is_run(self) -> bool:
        return self.depth == 0

    def _add_decorators(self, decorators: Sequence[cst.Decorator]) -> None:
        if self._is_run():
            names = {root(decorator.decorator) for decorator in decorators} - {""}
            self.statement.changes |= names
            self.statement.calls |= names

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._add_decorators(node.decorators)
        self.depth += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.depth -= 1

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.depth += 1

    def leave_Lambda(self, original_node: cst.Lambda) -> None:
        self.depth -= 1

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._add_decorators(node.decorators)
        if self._is_run():
            self.statement.calls |= {root(base.value) for base in (*node.bases, *node.keywords)} - {""}

    def visit_Call(self, node: cst.Call) -> None:
        self.statement.compiles = self.statement.compiles or dotted(node.func) == _COMPILE
        if self._is_run():
            self.statement.calls |= {root(node.func)} - {""}

    def visit_Global(self, node: cst.Global) -> None:
        names = {item.name.value for item in node.names}
        self.statement.function_changes |= names
        self.statement.reads |= names

    def _add_change(self, target: cst.CSTNode) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._add_change(element.value)
        elif isinstance(target, (cst.Attribute, cst.Subscript)):
            changes = self.statement.changes if self._is_run() else self.statement.function_changes
            changes.update({root(target)} - {""})

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._add_change(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._add_change(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._add_change(node.target)
        if isinstance(node.target, cst.Name) and self._is_run():
            self.statement.changes.add(node.target.value)

    def visit_For(self, node: cst.For) -> None:
        self._add_target(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._add_target(node.name)

    def _add_target(self, target: cst.CSTNode) -> None:
        """Record the names that the statement binds before any read."""
        if self._is_run() and isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._add_target(element.value)
        elif self._is_run() and isinstance(target, cst.Name):
            self.statement.targets.add(target.value)

    def visit_Del(self, node: cst.Del) -> None:
        self._add_change(node.target)

    def visit_Expr(self, node: cst.Expr) -> None:
        call = node.value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and not self._is_run():
            self.statement.function_changes |= {root(call.func)} - {""}
        if not isinstance(call, cst.Call) or not self._is_run():
            return
        function = call.func
        while isinstance(function, cst.Call):  # `table.register(op)(function)`, like a decorator
            function = function.func
        if isinstance(function, cst.Attribute):
            self.statement.changes |= {root(function)} - {""}
        while isinstance(call, cst.Call) and dotted(call.func) != _COMPILE:  # each call of register(name="x")(fn)
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


def _leaves(body: Sequence[cst.BaseStatement], tests: tuple[cst.If, ...]) -> Iterator[Statement]:
    """Yield the statements, with the branches of an `if` in its place."""
    for node in body:
        if isinstance(node, cst.If) and isinstance(node.body, cst.IndentedBlock):
            branch: cst.If | cst.Else | None = node
            branch_tests = tests
            while branch is not None:
                if isinstance(branch, cst.If):
                    branch_tests = (*branch_tests, branch)
                if isinstance(branch.body, cst.IndentedBlock):
                    yield from _leaves(branch.body.body, branch_tests)
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
        self.statements = list(_leaves(self.tree.body, ()))
        self._owners: dict[cst.CSTNode, Statement] = {statement.node: statement for statement in self.statements}
        self._tests = {test for statement in self.statements for test in statement.tests}
        self.reads_of_tests: dict[cst.If, set[str]] = {}
        for statement in self.statements:
            statement.last_line = positions[statement.node].end.line
            statement.node.visit(_Effects(statement))
        for scope in {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}:
            self._add_names(scope)
        self._follow_calls()

    def _follow_calls(self) -> None:
        """Add to `changes` the mutations by functions that a statement calls, directly or indirectly."""
        definitions: dict[str, list[Statement]] = {}
        for statement in self.statements:
            statement.function_changes &= statement.reads | statement.binds
            for name in statement.binds - statement.imports if not statement.compiles else ():
                definitions.setdefault(name, []).append(statement)
        for statement in self.statements:
            reached: set[Statement] = set()
            queue = [definition for name in statement.calls for definition in definitions.get(name, ())]
            while queue:
                definition = queue.pop()
                if definition not in reached:
                    reached.add(definition)
                    statement.changes |= definition.function_changes
                    queue += [callee for name in definition.reads for callee in definitions.get(name, ())]

    def _owner(self, node: cst.CSTNode) -> tuple[Statement | None, cst.If | None]:
        """Return (the statement around the node, None), or (None, the `if`) for a node of an `if`'s test."""
        child: cst.CSTNode = node
        while node not in self._owners:
            if node not in self._parents:
                return None, None
            child, node = node, self._parents[node]
            if isinstance(node, cst.If) and child is node.test and node in self._tests:
                return None, node
        return self._owners[node], None

    def _runs_at_import(self, node: cst.CSTNode) -> bool:
        """Return whether a binding at this node happens when the module runs, not by a function's `global`."""
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                return False
        return True

    def _add_names(self, scope: Scope) -> None:
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
            is_global = any(isinstance(referent.scope, GlobalScope) for referent in access.referents)
            if test is not None:
                self.reads_of_tests.setdefault(test, set()).add(name)
            elif owner is not None and is_global and name not in owner.targets:
                owner.reads.add(name)
            elif owner is not None and not access.referents:
                owner.unbound.add(name)


# What a module has without a statement that binds it.
_OF_EVERY_MODULE = frozenset({*dir(builtins), "__file__", "__name__", "__doc__", "__builtins__", "__annotations__"})


def missing_names(source: str) -> frozenset[str]:
    """Return the global names that the source reads but never binds; none for a source with a star import.

    Raises SyntaxError or ValueError for a source that is not Python.
    """
    top = symtable.symtable(source, "<source>", "exec")
    tables = [top, *_inner(top)]
    if re.search(r"\bimport\s*\*", source):
        return frozenset()
    bound = {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if (table is top or symbol.is_declared_global()) and (symbol.is_assigned() or symbol.is_imported())
    }
    return frozenset(_global_reads(tables) - bound - _OF_EVERY_MODULE)


def free_names(expression: str) -> set[str]:
    """Return the names that an expression reads and does not bind, as a lambda binds its parameters."""
    top = symtable.symtable(expression, "<source>", "eval")
    return _global_reads([top, *_inner(top)])


def _global_reads(tables: Sequence[symtable.SymbolTable]) -> set[str]:
    return {
        symbol.get_name()
        for number, table in enumerate(tables)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (number == 0 or symbol.is_global())
    }


def _inner(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner(child)


def missing_attributes(source: str) -> frozenset[str]:
    """Return the attributes that methods read from `self`, and that no method or class of the source binds.

    Raises SyntaxError or ValueError for a source that is not Python.
    """
    read, bound = set[str](), set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.attr)
        elif isinstance(node, ast.ClassDef):
            bound |= {name.id for each in node.body for name in ast.walk(each) if isinstance(name, ast.Name)}
            bound |= {each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    return frozenset(read - bound)
