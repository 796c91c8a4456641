"""Freeze what tells the failure of a script from others: the check of its own that fails, and its own backends.

No edit changes a frozen statement. Of the check these are the statement that fails, and the statements by which results
of compiled code come to it. Of a backend these are its definition, and what this names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing.module_statements import root
from minifier.data.failure.frames import TESTING
from minifier.repro.source.conditions import BACKENDS, CALLS, EXIT, Condition, SourceRun
from minifier.repro.source.script import Script, names_backend
from minifier.repro.source.statement_tree import texts_of
from minifier.torch_side.fx.script_objects import FILE

Stack: TypeAlias = "Sequence[tuple[str, int]]"
"""Functions of the script, each with the line that it has come to, outermost first."""
Place: TypeAlias = "tuple[str, str, int]"
"""The name, file and first line of a function."""

_ENDS = re.compile(r"assert\w*|_?exit|quit|abort")
_LEAVES = m.Return() | m.Continue() | m.Break()


class Frozen(Condition):
    """The check of the script that fails stays, and each of its backends stays or goes.

    A run of a candidate fails at the same statement, and calls no other backends. `has_other_check`: the check is not
    the script's, and stays by another condition.
    """

    def __init__(self, first: SourceRun, *, has_other_check: bool = False) -> None:
        self._has_other_check = has_other_check
        self._freeze(first)

    def _freeze(self, run: SourceRun) -> None:
        slices = Slices(run.source, [[(name, line) for name, line in stack] for stack in run.end.told.get(CALLS, ())])
        backends = slices.backends(_backends(run))
        named = {number: slices.slice({number}, {number}) for number in backends}
        of_backends = set[int]().union(*named.values())
        handed_over = slices.slice(slices.handed_over(of_backends), backends)
        stacks = [] if self._has_other_check else _failing_stacks(run)
        failing, check = slices.check(stacks, of_backends)
        self.has_check = failing is not None
        self._defaults = slices.defaults_around(failing) if failing is not None else frozenset[str]()
        self._failing = slices.text(failing) if failing is not None else ""
        self._names = {slices.text(number): slices.name(number) for number in backends}
        # What has to be there together with a text; "" is always there.
        self._needed = {slices.text(number): frozenset(map(slices.text, named[number])) for number in backends}
        self._needed[""] = frozenset(map(slices.text, check))
        self.frozen = frozenset(map(slices.text, handed_over)).union(*self._needed.values())
        self._backends = self._seen(run)

    def kept_in(self, source: str) -> tuple[str, ...]:
        """Return the names of the backends' definitions in the source."""
        present = {text for _, text in texts_of(source)}
        return tuple(sorted({name for text, name in self._names.items() if text in present}))

    def may_hold(self, source: str) -> bool:
        """Return whether the source has the check, and with each backend what this names."""
        present = {"", *(text for _, text in texts_of(source))}
        has_defaults = all(default in source for default in self._defaults)
        return has_defaults and all(needed <= present for text, needed in self._needed.items() if text in present)

    def holds(self, run: SourceRun) -> bool:
        """Return whether the check fails, and the run calls no other backends."""
        lines = {line for stack in _failing_stacks(run) for _, line in stack}
        spans = [span for span, text in texts_of(run.source) if text == self._failing]
        is_failing = not self._failing or any(not lines.isdisjoint(span) for span in spans)
        if run.is_inlined:  # which may have changed the check's text
            names = {name for name, *_ in _backends(run)}
            return (is_failing or not spans) and names <= {name for name, *_ in self._backends}
        return is_failing and self._seen(run) <= self._backends

    def accept(self, run: SourceRun) -> None:
        """Freeze what a module has brought in the place of its import."""
        if run.is_inlined:
            self._freeze(run)

    def _seen(self, run: SourceRun) -> set[tuple[str, str, str | int]]:
        """Return the name and file of each backend's function, with its frozen text, or its line in another file."""
        texts = [(span, text) for span, text in texts_of(run.source) if text in self.frozen]
        return {
            (name, file, next((text for span, text in texts if line in span), "") if file == FILE else line)
            for name, file, line in _backends(run)
        }


def _backends(run: SourceRun) -> list[Place]:
    return [(name, file, line) for name, file, line in run.end.told.get(BACKENDS, ())]


def _failing_stacks(run: SourceRun) -> list[Stack]:
    """Return where the script exited or raised each exception, itself or by a function for tests; innermost first."""
    stacks: list[Stack] = []
    for frames in reversed([link["frames"] for link in run.links] or run.end.told.get(EXIT, [])):
        places = [place for place, frame in enumerate(frames) if frame[2] == FILE]
        if places and all(module.startswith(TESTING) for module, *_ in frames[places[-1] + 1 :]):
            stacks.append([(frames[place][1], frames[place][3]) for place in places])
    return stacks


class Slices:
    """Slices of a script by names; each is a set of numbers of its statements.

    `calls` are the stacks in which compiled code called a backend. A function or class around none of these calls
    belongs to a slice as a whole.
    """

    def __init__(self, source: str, calls: Sequence[Stack]) -> None:
        self._script, self._calls = Script(source), calls
        tree = self._tree = self._script.tree
        self._called = {number for stack in calls for _, line in stack if (number := tree.at_line(line)) is not None}
        self._compiling = {number for call in self._script.compiling if (number := tree.owner(call)) is not None}
        self._around = {number for each in self._called | self._compiling for number in self._up(each)}
        changing: dict[int, set[int]] = {}  # by the statement that binds a name: the statements that change the object
        for reader, name, binders in tree.reads:
            if name == _changed(tree.statements[reader]) and name not in self._script.imported:
                for binder in binders:
                    changing.setdefault(binder, set()).add(reader)
        self._in_lambdas: set[tuple[int, str]] = set()  # (statement, name that a backend's lambda in it reads)
        # (statement, name that it reads, statements that bind the name or change the object)
        self._reads = [
            (reader, name, {self._whole(each) for binder in binders for each in (binder, *changing.get(binder, ()))})
            for reader, name, binders in tree.reads
        ]

    def text(self, number: int) -> str:
        """Return the text of a statement."""
        return self._tree.text(self._tree.statements[number])

    def name(self, number: int) -> str:
        """Return the name of a definition; "" for another statement."""
        node = self._tree.statements[number]
        return node.name.value if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else ""

    def check(self, stacks: Sequence[Stack], of_backends: Collection[int]) -> tuple[int | None, set[int]]:
        """Return the statement that decides the failure, and the slice from it back to the calls of compiled code.

        The statement is in the innermost function that has called compiled code. (None, empty) if the script does not
        check: a backend may raise as well.
        """
        for stack in stacks:
            numbers = [number for _, line in stack if (number := self._tree.at_line(line)) is not None]
            if len(numbers) < len(stack) or not _ends(self._tree.statements[numbers[-1]]):
                continue
            depth = self._depth(stack)
            failing, inner = self._deciding(numbers[depth]), set(map(self._whole, numbers[depth + 1 :]))
            if inner.intersection(of_backends):
                continue
            ahead = {
                number
                for number in self._derived(self._called)
                if number < failing and self._tree.enclosing[number] == self._tree.enclosing[failing]
                if isinstance(node := self._tree.statements[number], cst.If) and m.findall(node, _LEAVES)
            }
            calls = (self._tree.statements[number] for number in numbers[:depth])
            given = {n for n, call in zip(numbers[:depth], calls, strict=True) if m.matches(call, _CALL_WITH_ARGUMENTS)}
            return failing, self.slice({failing, *ahead, *inner, *given}, self._called)
        return None, set()

    def _deciding(self, number: int) -> int:
        """Return the statement if it tests results itself, else the `if` or `while` around it that does, if any."""
        node, derived = self._tree.statements[number], self._derived(self._called)
        is_call_of_results = isinstance(node, cst.Expr) and number in derived
        if isinstance(node, cst.Assert) or is_call_of_results or _called(node).startswith("assert"):
            return number
        for outer in self._up(number)[1:]:
            if self.name(outer):
                break
            if outer in derived and isinstance(self._tree.statements[outer], (cst.If, cst.While)):
                return outer
        return number

    def _depth(self, stack: Stack) -> int:
        """Return the place on a stack of the innermost function that has called compiled code too."""
        shared = [
            place
            for place, (function, _) in enumerate(stack)
            for call in self._calls
            if call[:place] == stack[:place] and [name for name, _ in call[place : place + 1]] == [function]
        ]
        return max(shared, default=len(stack) - 1)

    def backends(self, places: Iterable[Place]) -> set[int]:
        """Return the definitions with the functions of backends."""
        found = {(name, self._tree.at_line(line)) for name, file, line in places if file == FILE}
        lambdas = {number for name, number in found if number is not None and name == "<lambda>"}
        for number in lambdas:
            names = m.findall(self._tree.statements[number], m.Lambda())
            self._in_lambdas |= {(number, root(name)) for each in names for name in m.findall(each, m.Name())}
        named = {self._whole(number) for name, number in found if number is not None and self.name(number) == name}
        return lambdas | named

    def defaults_around(self, number: int) -> frozenset[str]:
        """Return the parameters with a number as their default of the functions around a statement, as text."""
        functions = (self._tree.statements[outer] for outer in self._up(number))
        parameters = [each for node in functions for each in m.findall(node, m.Param(default=_NUMBER))]
        return frozenset(self._script.module.code_for_node(each.with_changes(comma=_NONE)) for each in parameters)

    def handed_over(self, definitions: Collection[int]) -> set[int]:
        """Return the statements through which `backend=` gets to these definitions."""
        nodes = [node for node in m.findall(self._script.module, m.Arg() | m.DictElement()) if names_backend(node)]
        names = {(self._tree.owner(node), root(name)) for node in nodes for name in m.findall(node, m.Name())}
        derived = self._derived(definitions) - set(definitions)
        return {each for reader, name, bound in self._reads if (reader, name) in names for each in bound & derived}

    def slice(self, start: Collection[int], results: Collection[int]) -> set[int]:
        """Return statements, with all that definitions among them name, and what else they read of the following.

        This is what comes from `results`, the definitions that compute with it, and plain values like a tolerance.
        """
        derived, found, rim = self._derived(results), set[int](), set(start)
        while rim:
            found |= rim
            rim = {
                each
                for reader, name, bound in self._reads
                if any(n == reader or n in start or self.name(n) for n in found.intersection(self._up(reader)))
                for each in bound.difference(self._up(reader))
                if self._belongs(reader, name, each, derived)
            } - found
        small = cst.BaseSmallStatement
        return {n for n in found if n in start or self.name(n) or isinstance(self._tree.statements[n], small)}

    def _belongs(self, reader: int, name: str, bound: int, derived: Collection[int]) -> bool:
        """Return whether a statement that binds or changes a name belongs to the slice of a statement that reads it."""
        node = self._tree.statements[bound]
        if isinstance(node, (cst.Import, cst.ImportFrom)) or (self.name(bound) and bound in self._around):
            return False
        if self.name(self._whole(reader)) or (reader, name) in self._in_lambdas:
            return True
        if self.name(bound):
            return self._computes_with(name, reader, derived)
        is_plain = all(m.matches(call, _PLAIN_CALL) for call in m.findall(node, m.Call()))
        return bound in derived or (m.matches(node, _ASSIGNMENT) and is_plain)

    def _computes_with(self, function: str, reader: int, derived: Collection[int]) -> bool:
        """Return whether a statement calls the function with what is derived, or with what compiled code returns."""
        calls = m.findall(self._tree.statements[reader], m.Call(func=m.Name(function)))
        given = [node for call in calls for arg in call.children for node in m.findall(arg, m.Name() | m.Call())]
        names = {node.value for node in given if isinstance(node, cst.Name)} - {function}
        sources = [bound for number, name, bound in self._reads if number == reader and name in names]
        compiled = self._compiling.union(derived)
        return not self._script.compiling.isdisjoint(given) or any(bound & compiled for bound in sources)

    def _derived(self, results: Collection[int]) -> set[int]:
        """Return these statements, and those that read what one of them binds or changes."""
        derived = set(results)
        while more := {reader for reader, _, bound in self._reads if bound & derived} - derived:
            derived |= more
        return derived

    def _up(self, number: int | None) -> list[int]:
        """Return the statement and those around it, the innermost first."""
        numbers: list[int] = []
        while number is not None:
            numbers.append(number)
            number = self._tree.enclosing[number]
        return numbers

    def _whole(self, number: int) -> int:
        """Return the outermost definition around a statement that no compiled code is called in, or the statement."""
        return next((n for n in reversed(self._up(number)) if self.name(n) and n not in self._around), number)


_ASSIGNMENT = m.Assign() | m.AnnAssign() | m.AugAssign()
# What computes a tolerance, and makes no data.
_PLAIN_CALL = m.Call(
    func=m.Attribute(attr=m.Name("finfo") | m.Name("iinfo"))
    | m.Attribute(value=m.Name("math"))
    | m.Name(value=m.MatchRegex("abs|dict|float|int|max|min|round|finfo|iinfo"))
)
_NUMBER = m.OneOf(m.Integer(), m.Float(), m.UnaryOperation(), m.BinaryOperation())
_CALL_WITH_ARGUMENTS = m.Expr(value=m.Call(args=[m.AtLeastN(n=1)])) | m.Assign(value=m.Call(args=[m.AtLeastN(n=1)]))
_NONE = cst.MaybeSentinel.DEFAULT


def _ends(node: cst.CSTNode) -> bool:
    """Return whether a statement may end the script: an assertion, `raise`, or a call of an exit."""
    return isinstance(node, (cst.Assert, cst.Raise)) or _ENDS.fullmatch(_called(node)) is not None


def _called(node: cst.CSTNode) -> str:
    """Return the last name of the function that a statement calls for its effect; "" for any other statement."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return ""
    function = node.value.func
    name = function.attr if isinstance(function, cst.Attribute) else function
    return name.value if isinstance(name, cst.Name) else ""


def _changed(node: cst.CSTNode) -> str:
    """Return the variable whose object a statement changes by a method, or in a part; "" if it changes none."""
    if isinstance(node, cst.Expr) and m.matches(node.value, m.Call(func=m.Attribute())):
        return root(node.value)
    targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else []
    targets += [node.target] if isinstance(node, cst.AugAssign) else []
    return next((root(each) for each in targets if isinstance(each, (cst.Attribute, cst.Subscript))), "")
