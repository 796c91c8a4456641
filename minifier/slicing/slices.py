"""The statements of a module that a name needs, and their source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier.slicing.module_statements import ModuleStatements, Statement, dotted
from minifier.slicing.random_draws import seeds_for

# Changing these modules is state of the script, which is captured and made plain by itself.
_STATE = {"torch", "os", "sys", "warnings", "logging", "random", "numpy", "np", "faulthandler", "signal", "atexit"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a slice is to define: names of the module, and custom ops by their full names (`ns::op`). Statements that
    reach the line `until` had not been run when the names were used."""

    names: Collection[str] = ()
    ops: Collection[str] = ()
    until: int | None = None


def slice_module(source: str, wanted: Wanted) -> str:
    """The source of what the module's names need to be what they are, in the module's order, with its formatting and
    the comments that stand directly above a statement; empty if nothing is needed.

    Raises libcst.ParserSyntaxError for source that is not Python.
    """
    module = ModuleStatements(source)
    needed = _Needed(module, wanted)
    needed.find()
    return _Rendered(module, needed).text()


class _Needed:
    """The statements that are needed, found from what is wanted."""

    def __init__(self, module: ModuleStatements, wanted: Wanted) -> None:
        self.module, self.wanted = module, wanted
        self.run = [s for s in module.statements if wanted.until is None or s.last_line < wanted.until]
        self.statements: set[Statement] = set()
        self.names: set[str] = set()
        self.holders: set[str] = set()  # of ops, by namespace: those that are not wanted are held there as well
        self.imported = {name for s in self.run for name in s.imports}
        self.defined = {name for s in self.run for name in s.binds - s.imports}

    def find(self) -> None:
        """Follows what is wanted until nothing is added."""
        for name in self.wanted.names:
            self._add_name(name)
        for op in self.wanted.ops:
            self._add_op(op)
        while any([self._add_effects(s) for s in self.run if s not in self.statements]) or self._add_seeds():
            pass
        if any(s.unbound for s in self.statements):
            for s in self.run:
                if s.is_star_import:
                    self._add(s)
        if self.statements:
            for s in self.run:
                if s.is_future_import:
                    self._add(s)

    def _add(self, statement: Statement) -> None:
        if statement in self.statements:
            return
        self.statements.add(statement)
        for test in statement.tests:
            for name in self.module.reads_of_tests.get(test, ()):
                self._add_name(name)
        for name in () if statement.binds and statement.binds == statement.imports else statement.reads:
            self._add_name(name)

    def _add_name(self, name: str) -> None:
        if name in self.names:
            return
        self.names.add(name)
        for statement in self.run:
            if name in statement.binds:
                self._add(statement)

    def _add_effects(self, statement: Statement) -> bool:
        """Adds a statement that changes something needed, or registers it somewhere."""
        mine = self.names & self.defined - self.holders
        theirs = {name for name in self.names & self.imported if name not in _STATE}
        assigns = not isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)) and not statement.hands_over
        changes = statement.changes & (mine | (theirs if assigns and not statement.binds else set()))
        if not changes and not self._registers(statement, mine):
            return False
        self._add(statement)
        return True

    def _add_seeds(self) -> bool:
        """Adds what sets the seeds of random numbers that are drawn in what is needed."""
        missing = [s for s in seeds_for(self.run, self.statements) if s not in self.statements]
        for statement in missing:
            self._add(statement)
        return bool(missing)

    def _registers(self, statement: Statement, mine: set[str]) -> bool:
        """Whether it hands something needed to a function for the effect alone, and needs nothing else for it."""
        if not statement.hands_over & mine or not (statement.reads & self.imported):
            return False
        return statement.reads & self.defined <= self.names

    def _add_op(self, op: str) -> None:
        namespace, _, name = op.partition("::")

        def says(statement: Statement, *texts: str) -> bool:
            return any(
                said == text or said.startswith((f"{text}(", f"{text}."))
                for said in statement.strings
                for text in texts
            )

        holders = {bound for s in self.run if says(s, namespace) and s.reads & self.imported for bound in s.binds}
        self.holders |= holders - set(self.wanted.names)
        found = [s for s in self.run if says(s, op) or (s.reads & holders and says(s, name, op))]
        if not found:  # it comes from a library that the script loads
            found = [s for s in self.run if "load_library" in self.module.tree.code_for_node(s.node)]
        for statement in found:
            self._add(statement)
            self.names |= statement.binds


class _Rendered:
    """The needed part of a module as source."""

    def __init__(self, module: ModuleStatements, needed: _Needed) -> None:
        self.module, self.names = module, needed.names
        self.kept = {s.node for s in needed.statements}
        self.of = {s.node: s for s in needed.statements}

    def text(self) -> str:
        """The source; empty if nothing is kept."""
        body = self._body(self.module.tree.body)
        if not body:
            return ""
        first = self.module.tree.body[0]
        of_first = self.module.tree.header if first in self.kept and not _is_import(first) else ()
        header = _comments_above(of_first)
        return self.module.tree.with_changes(body=body, header=header, footer=[]).code.strip("\n") + "\n"

    def _body(self, nodes: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        found: list[cst.BaseStatement] = []
        for node in nodes:
            kept = self._kept(node)
            if kept is not None:
                found.append(tidied(kept, found[-1] if found else None))
        return found

    def _kept(self, node: cst.BaseStatement) -> cst.BaseStatement | None:
        if node in self.kept:
            return self._with_needed_imports(node)
        return self._branch(node) if isinstance(node, cst.If) else None

    def _branch(self, node: cst.If) -> cst.If | None:
        """An `if` with what is needed of each branch; None if that is nothing. Branches above a needed one stay, as
        their tests decide."""
        body = self._body(node.body.body) if isinstance(node.body, cst.IndentedBlock) else []
        orelse: cst.If | cst.Else | None = None
        if isinstance(node.orelse, cst.If):
            orelse = self._branch(node.orelse)
        elif node.orelse is not None and isinstance(node.orelse.body, cst.IndentedBlock):
            other = self._body(node.orelse.body.body)
            orelse = node.orelse.with_changes(body=node.orelse.body.with_changes(body=other)) if other else None
        if not body and orelse is None:
            return None
        filled = body or [cst.SimpleStatementLine([cst.Pass()])]
        return node.with_changes(body=node.body.with_changes(body=filled), orelse=orelse)

    def _with_needed_imports(self, node: cst.BaseStatement) -> cst.BaseStatement:
        """An import of several names without those that are not needed."""
        statement = self.of[node]
        if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1 or statement.is_future_import:
            return node
        (part,) = node.body
        if not isinstance(part, (cst.Import, cst.ImportFrom)) or isinstance(part.names, cst.ImportStar):
            return node
        wanted = [alias for alias in part.names if _bound_by(alias) in self.names]
        if not wanted or len(wanted) == len(part.names):
            return node
        wanted[-1] = wanted[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(body=[part.with_changes(names=wanted)])


def _bound_by(alias: cst.ImportAlias) -> str:
    if alias.asname is not None:
        return dotted(alias.asname.name)
    return dotted(alias.name).partition(".")[0]


def tidied(node: cst.BaseStatement, before: cst.BaseStatement | None) -> cst.BaseStatement:
    """The statement with the comment directly above it, and with as many empty lines before that as is usual."""
    lines = getattr(node, "leading_lines", ())
    comments = _comments_above(lines)
    wide = any(isinstance(each, (cst.FunctionDef, cst.ClassDef)) for each in (node, before))
    apart = before is not None and _is_import(before) and not _is_import(node)
    empty = 0 if before is None else 2 if wide else min(len(lines) - len(comments) + apart, 1)
    return node.with_changes(leading_lines=[*[cst.EmptyLine(indent=False)] * empty, *comments])


def _comments_above(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The comments at the end of the lines before a statement, with no empty line between."""
    found: list[cst.EmptyLine] = []
    for line in reversed(lines):
        if line.comment is None:
            break
        found.insert(0, line)
    return found


def _is_import(node: cst.BaseStatement) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], (cst.Import, cst.ImportFrom))
