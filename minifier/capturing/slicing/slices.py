"""Slice a module: find the statements that names need, and render their source."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from minifier.capturing.slicing.module_statements import (
    ModuleStatements,
    Statement,
    bound_by,
    dotted,
    names_of_definitions,
)

# Functions that seed the generator of torch, Python or NumPy.
_SEED = re.compile(
    r"^torch\.(random\.|cuda\.|mps\.|xpu\.)?manual_seed(_all)?$|^random\.seed$|^(np|numpy)\.random\.seed$"
)
# Functions that draw numbers, methods that draw in place, and modules that draw their parameters.
_DRAWS = re.compile(
    r"(^|\.)(rand\w*|normal_?|uniform_?|bernoulli_?|multinomial|exponential_|choices?|shuffle|sample|permutation"
    r"|standard_\w+|gauss|\w*variate|(xavier|kaiming|trunc)_\w+|orthogonal_)$|^(torch\.)?nn\.(\w+\.)*[A-Z]\w*$"
    r"|^(Linear|Conv\dd|Embedding|LSTM|GRU|MultiheadAttention)$"
)

# Assignments to attributes of these modules are not kept: they are state, which is captured and reduced separately.
_STATE_MODULES = {
    "torch",
    "os",
    "sys",
    "warnings",
    "logging",
    "random",
    "numpy",
    "np",
    "faulthandler",
    "signal",
    "atexit",
}


_LIBRARY = "torch.library"
_MAKE_OPS = ("load_library", "custom_op", "triton_op", _LIBRARY)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Names of the module and custom ops (`ns::op`) that a slice must define.

    Statements that end at the line `until` or later are ignored: they had not run when the names were used.
    """

    names: Collection[str] = ()
    ops: Collection[str] = ()
    until: int | None = None


def slice_module(source: str, wanted: Wanted) -> str:
    """Return the source of the needed statements, empty if there are none.

    Order, formatting and the comments directly above a statement are kept. Raises libcst.ParserSyntaxError for source
    that is not Python.
    """
    module = ModuleStatements(source)
    needed = _Needed(module, wanted)
    needed.find()
    return _Rendered(module, needed).text()


class _Needed:
    def __init__(self, module: ModuleStatements, wanted: Wanted) -> None:
        self.module, self.wanted = module, wanted
        self.run = [s for s in module.statements if wanted.until is None or s.last_line < wanted.until]
        self.statements: set[Statement] = set()
        self.names: set[str] = set()
        self.libraries: set[str] = set()  # names of torch.library objects, which hold unwanted ops too
        self.imported = {name for s in self.run for name in s.imports}
        self.defined = {name for s in self.run for name in s.binds - s.imports}

    def find(self) -> None:
        """Add statements until a fixed point."""
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
        """Add the statement if it changes or registers a needed object; return True if added."""
        needed = self.names & self.defined - self.libraries
        imported = self.names & self.imported - _STATE_MODULES
        assigns = not statement.is_definition and not statement.hands_over
        changes = statement.changes & (needed | (imported if assigns and not statement.binds else set()))
        if not changes and not self._registers(statement, needed):
            return False
        self._add(statement)
        return True

    def _add_seeds(self) -> bool:
        """Add the seeds of random numbers that the slice draws; return whether any was missing."""
        missing = [s for s in seeds_for(self.run, self.statements) if s not in self.statements]
        for statement in missing:
            self._add(statement)
        return bool(missing)

    def _registers(self, statement: Statement, needed: set[str]) -> bool:
        """Return whether the statement hands a needed object to an imported function.

        The function's result must be unused, and the statement must read nothing unneeded.
        """
        if not statement.hands_over & needed or not (statement.reads & self.imported):
            return False
        return statement.reads & self.defined <= self.names

    def _add_op(self, op: str) -> None:
        namespace, _, name = op.partition("::")

        def mentions(statement: Statement, *texts: str) -> bool:
            return any(
                string == text or string.startswith((f"{text}(", f"{text}."))
                for string in statement.strings
                for text in texts
            )

        libraries = {bound for s in self.run if mentions(s, namespace) and s.reads & self.imported for bound in s.binds}
        self.libraries |= libraries - set(self.wanted.names)
        helpers = names_of_definitions(self.run, lambda s: bool(s.reads & libraries))
        registering = [s for s in self.run if s.reads & (libraries | helpers)]
        definitions = [s for s in self.run if mentions(s, op) or (s in registering and mentions(s, name, op))]
        if not any(s in registering or self._makes_ops(s) for s in definitions):  # their names are computed
            definitions += [s for s in registering if s not in definitions]
        if not definitions:  # the namespace is computed, or the op comes from a shared library
            definitions = [s for s in self.run if self._makes_ops(s)]
        for statement in definitions:
            self._add(statement)
            self.names |= statement.binds

    def _makes_ops(self, statement: Statement) -> bool:
        """Whether the statement may register ops: it names torch's functions for that, or imports of torch.library."""
        return bool(statement.reads & self._of_library) or any(word in self._code(statement) for word in _MAKE_OPS)

    @functools.cached_property
    def _of_library(self) -> set[str]:
        """The names that are imported of torch.library, and those of the definitions that read them."""
        imports = [s for s in self.run if _is_import(s.node) and _LIBRARY in self._code(s)]
        makers = {name for s in imports for name in s.binds}
        return makers | names_of_definitions(self.run, lambda s: bool(s.reads & makers))

    def _code(self, statement: Statement) -> str:
        return self.module.tree.code_for_node(statement.node)


class _Rendered:
    def __init__(self, module: ModuleStatements, needed: _Needed) -> None:
        self.module, self.names = module, needed.names
        self.statement_of: dict[cst.BaseStatement, Statement] = {s.node: s for s in needed.statements}

    def text(self) -> str:
        """Return the source; empty if no statement is needed."""
        body = self._body(self.module.tree.body)
        if not body:
            return ""
        first = self.module.tree.body[0]
        lines = self.module.tree.header if first in self.statement_of and not _is_import(first) else ()
        header = _comments_above(lines)
        return self.module.tree.with_changes(body=body, header=header, footer=[]).code.strip("\n") + "\n"

    def _body(self, nodes: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        body: list[cst.BaseStatement] = []
        for node in nodes:
            statement = self._statement(node)
            if statement is not None:
                body.append(tidied(statement, body[-1] if body else None))
        return body

    def _statement(self, node: cst.BaseStatement) -> cst.BaseStatement | None:
        if node in self.statement_of:
            return self._with_needed_imports(node)
        return self._branch(node) if isinstance(node, cst.If) else None

    def _branch(self, node: cst.If) -> cst.If | None:
        """Return the `if` with the needed statements of its branches, None if there are none.

        Empty branches above a needed branch stay, for their tests.
        """
        body = self._body(node.body.body) if isinstance(node.body, cst.IndentedBlock) else []
        orelse: cst.If | cst.Else | None = None
        if isinstance(node.orelse, cst.If):
            orelse = self._branch(node.orelse)
        elif node.orelse is not None and isinstance(node.orelse.body, cst.IndentedBlock):
            else_body = self._body(node.orelse.body.body)
            orelse = node.orelse.with_changes(body=node.orelse.body.with_changes(body=else_body)) if else_body else None
        if not body and orelse is None:
            return None
        body = body or [cst.SimpleStatementLine([cst.Pass()])]
        return node.with_changes(body=node.body.with_changes(body=body), orelse=orelse)

    def _with_needed_imports(self, node: cst.BaseStatement) -> cst.BaseStatement:
        is_future = self.statement_of[node].is_future_import
        if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1 or is_future:
            return node
        (small,) = node.body
        if not isinstance(small, (cst.Import, cst.ImportFrom)) or isinstance(small.names, cst.ImportStar):
            return node
        aliases = [alias for alias in small.names if bound_by(alias) in self.names]
        if not aliases or len(aliases) == len(small.names):
            return node
        aliases[-1] = aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(body=[small.with_changes(names=aliases)])


def tidied(node: cst.BaseStatement, before: cst.BaseStatement | None) -> cst.BaseStatement:
    """Keep the comment directly above the statement, and put the usual number of blank lines above that."""
    lines = getattr(node, "leading_lines", ())
    comments = _comments_above(lines)
    is_definition = any(isinstance(n, (cst.FunctionDef, cst.ClassDef)) for n in (node, before))
    ends_imports = before is not None and _is_import(before) and not _is_import(node)
    blank = 0 if before is None else 2 if is_definition else min(len(lines) - len(comments) + ends_imports, 1)
    return node.with_changes(leading_lines=[*[cst.EmptyLine(indent=False)] * blank, *comments])


def _comments_above(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Return the last comment lines, up to the last blank line."""
    comments: list[cst.EmptyLine] = []
    for line in reversed(lines):
        if line.comment is None:
            break
        comments.insert(0, line)
    return comments


def _is_import(node: cst.BaseStatement) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], (cst.Import, cst.ImportFrom))


def seeds_for(run: Sequence[Statement], kept: Collection[Statement]) -> list[Statement]:
    """Return the last seeding statement of each generator before each kept statement that draws.

    Only seeds that are integers, or names of integers, are known and count.
    """
    drawing = names_of_definitions(kept, _draws)
    seeding = names_of_definitions(run, lambda statement: bool(_seeds(statement)))
    numbers = {name for statement in run if _is_number(statement) for name in statement.binds}
    latest: dict[str, Statement] = {}
    needed: dict[Statement, None] = {}
    for statement in run:
        if statement.is_definition:
            continue
        if statement in kept and (statement.calls & drawing or _draws(statement)):
            needed |= dict.fromkeys(latest.values())
        for name in _seeds(statement) or sorted(statement.calls & seeding):
            if _has_known_seed(statement, numbers):
                latest[name] = statement
    return list(needed)


def _is_number(statement: Statement) -> bool:
    return any(isinstance(small, cst.Assign) and isinstance(small.value, cst.Integer) for small in statement.small)


def _has_known_seed(statement: Statement, numbers: set[str]) -> bool:
    """Return whether all arguments are integers or names of integers: a slice knows no command-line arguments."""
    calls = [call for call in m.findall(statement.node, m.Call()) if isinstance(call, cst.Call)]
    values = [argument.value for call in calls for argument in call.args]
    return bool(statement.small) and all(
        isinstance(value, cst.Integer) or (isinstance(value, cst.Name) and value.value in numbers) for value in values
    )


def _draws(statement: Statement) -> bool:
    return any(_DRAWS.search(name) for name in _calls(statement))


def _seeds(statement: Statement) -> list[str]:
    return [name for name in _calls(statement) if _SEED.search(name)]


def _calls(statement: Statement) -> Iterator[str]:
    """Yield the dotted names of called functions; the bare method name if the object is an expression."""
    for call in m.findall(statement.node, m.Call()):
        assert isinstance(call, cst.Call)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        yield dotted(call.func) or method
