"""Add a check to a script: run twice, in eager mode and compiled, it must see the same value at one place.

    seen = []

    def run():
        global model, loss
        ...                                  # the script's statements
        seen.append(model.scale.detach().clone())

    run()
    actual = list(seen)
    seen.clear()
    with torch.compiler.set_stance("force_eager"):
        run()
    torch.testing.assert_close(actual, seen)

Compiled code comes first, as in the script: it sees no state that a run in eager mode has left. Such a script is
reduced like any other whose own check fails. The statements that compare stay as they are.
"""

from __future__ import annotations

import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import libcst as cst
from libcst import matchers as m
from libcst.metadata import CodePosition, MetadataWrapper, ParentNodeProvider, PositionProvider

from minifier.capturing.slicing.module_statements import root
from minifier.capturing.watched_script import RESULT, Moment, Place
from minifier.repro.emit.statements import unused
from minifier.repro.source.conditions import generators_seeded
from minifier.repro.source.script import EVALUATED_LATER, changed
from minifier.repro.source.statement_tree import texts_of

_RESULT = re.compile(rf"(?<![\w.]){RESULT}\b")
_SEEDS = {"torch": "manual_seed(0)", "random": "seed(0)", "numpy": "random.seed(0)"}
_DEFINITION = m.FunctionDef() | m.ClassDef()
_IMPORT = m.SimpleStatementLine(body=[m.OneOf(m.Import(), m.ImportFrom()), m.ZeroOrMore()])
_CONSTANT = m.SimpleStatementLine(body=[m.Assign(value=m.Integer() | m.Float() | m.SimpleString())])
_DOCSTRING = m.SimpleStatementLine(body=[m.Expr(m.SimpleString())])


@dataclass(frozen=True, slots=True)
class Sight:
    """A value that a script sees otherwise than in eager mode, at a place.

    `expression` leads to it. `tolerance`: the absolute difference that is too large, for numbers; None for an exact
    value. `relative` is the relative difference that rounding may make. `error` has the exception's type that only
    eager mode raises, in the place of an expression. `compiled` and `eager` are the values as text. `is_later`: the
    script had come to the place before, so that in a loop what it sees there is what the loop has made. Numbers are
    `off` by so much, and differ by `noise` between two runs in eager mode of which the second rounds otherwise.
    """

    moment: Moment
    place: Place
    expression: str
    compiled: str
    eager: str
    tolerance: float | None = None
    is_tensor: bool = False
    error: str = ""
    is_later: bool = False
    relative: float = 0.0
    off: float = 0.0
    noise: float = 0.0

    @property
    def is_result(self) -> bool:
        """Whether the expression leads from what the call returned; at other moments `result` is the script's own."""
        return self.moment is Moment.AFTER and _RESULT.search(self.expression) is not None

    def __str__(self) -> str:
        line = f" at line {self.place.line}" if self.place.line else " at its end"
        if self.error:
            return f"in eager mode it raises {self.error}{line}, under torch.compile it does not"
        what = "the result of the call" if self.is_result and self.expression == RESULT else f"`{self.expression}`"
        if self.off and self.relative:
            moved = f"with other rounding eager mode's moves by {self.noise:.1g}"
            return f"{what}{line} is off by {self.off:.2g}; {moved}: {self.compiled} for {self.eager}"
        return f"{what}{line} is {self.compiled or 'not there'}, in eager mode {self.eager or 'not there'}"


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """A script with a check against eager mode.

    `check` are the texts of the statements that compare. Of the others that were added, `further` stay in some form:
    the function of the script's statements, and what notes the value.
    """

    text: str
    sight: Sight
    check: tuple[str, ...]

    @property
    def further(self) -> int:
        """The number of further statements."""
        return 1 if self.sight.error else 2


def with_check(source: str, sight: Sight) -> Iterator[CheckedScript]:
    """Yield the script with a check of the value, definitions run once, or twice as all else.

    What a loop has made is looked at when the loop's body ends, or else ahead of the place.

    Nothing if the place cannot be found in the source. Raises libcst.ParserSyntaxError.
    """
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    names = {node.value for node in m.findall(wrapper.module, m.Name()) if isinstance(node, cst.Name)}
    seen = unused("seen", names)
    places = (sight, replace(sight, is_later=False)) if sight.is_later else (sight,)
    observed = [wrapper.module] if sight.error else [_observed(wrapper, each, seen, names) for each in places]
    modules = {each.code: each for each in observed if each is not None}
    for module in modules.values():
        for body in dict.fromkeys((_split(module, once=True), _split(module, once=False))):
            text, first_line = _written(module, body, sight, names)
            lines = text.splitlines()
            of_check = (
                each
                for where, each in texts_of(text)
                if each == f"{seen} = []" or (where.start >= first_line and not lines[where.start - 1].startswith(" "))
            )
            yield CheckedScript(text, sight, tuple(dict.fromkeys(of_check)))


_NOTED = re.compile(
    r"(?P<run>\w+)\(\)\n(?P<actual>\w+) = list\((?P<seen>\w+)\)\n(?P=seen)\.clear\(\)\n"
    r'(?P<stance>with \w+\.compiler\.set_stance\("force_eager"\):\n)    (?P=run)\(\)\n(?P<compared>.*)',
    re.DOTALL,
)


def with_returned_value(text: str) -> str | None:
    """Return a script with a check whose function returns the value; None unless it ends with noting that in the list.

    >>> print(with_returned_value(checked))
    def run():
        return fast(x)

    actual = run()
    with torch.compiler.set_stance("force_eager"):
        expected = run()
    torch.testing.assert_close(actual, expected)
    """
    found = _NOTED.search(text)
    if found is None:
        return None
    run, seen = found["run"], found["seen"]
    module = cst.parse_module(text)
    noting = m.Expr(m.Call(m.Attribute(m.Name(seen), m.Name("append")), [m.Arg()]))
    functions = (each for each in module.body if m.matches(each, m.FunctionDef(name=m.Name(run))))
    last: cst.CSTNode | None = next(functions, None)
    while isinstance(last, (cst.FunctionDef, cst.With)):
        last = last.body.body[-1]
    if last is None or len(m.findall(module, noting)) != 1 or not m.matches(last, m.SimpleStatementLine([noting])):
        return None
    (note,), made = m.findall(last, noting), m.findall(module, m.Assign([m.AssignTarget(m.Name(seen))]))
    value = cst.ensure_type(cst.ensure_type(note, cst.Expr).value, cst.Call).args[0].value
    rewritten = changed(module, {note: [cst.Return(value)], **{each: () for each in made}})
    if not isinstance(rewritten, cst.Module):
        return None
    expected = unused("expected", {*re.findall(r"\w+", text)})
    compared = re.sub(rf"\b{seen}\b", expected, found["compared"])
    check = f"{found['actual']} = {run}()\n{found['stance']}    {expected} = {run}()\n{compared}"
    return rewritten.code.removesuffix(found[0]) + check


def _observed(wrapper: MetadataWrapper, sight: Sight, seen: str, names: set[str]) -> cst.Module | None:
    """Return the module with a statement that appends the value to the list `seen`.

    None if it finds no place, or none where a statement can stand.
    """
    lines, module = _Lines(wrapper), wrapper.module
    if sight.moment is Moment.ENDED:
        return module.with_changes(body=[*module.body, cst.parse_statement(_append(sight, seen))])
    if sight.moment is Moment.RETURNED:
        function = lines.function(sight.place)
        if function is None:
            return None
        return _changed(module, function, _at_end(function, cst.parse_statement(_append(sight, seen))))
    line = lines.at(sight.place.line)
    if line is None:
        return None
    is_compound = isinstance(line, cst.BaseCompoundStatement)
    name = RESULT
    if sight.is_result:
        call = lines.call(line, sight.place)
        if call is None or m.findall(line, _LATER) or isinstance(line, cst.While):
            return None
        name = _target(line, call)
        if not name:
            name = unused(RESULT, names)
            rest = changed(line, {call: [cst.Name(name)]})
            if rest is None:
                return None
            result = cst.parse_statement(f"{name} = {module.code_for_node(call)}")
            return _changed(module, line, result, cst.parse_statement(_append(sight, seen, name)), rest)
    append = cst.parse_statement(_append(sight, seen, name))
    if sight.is_later and (loop := lines.loop(line)) is not None:
        return _changed(module, loop, _at_end(loop, append))
    if sight.moment is Moment.AFTER and not (is_compound or m.findall(line, m.Return() | m.Raise())):
        return _changed(module, line, line, append)
    return _changed(module, line, append, line)


def _changed(module: cst.Module, old: cst.CSTNode, *new: cst.CSTNode) -> cst.Module | None:
    result = changed(module, {old: new})
    return result if isinstance(result, cst.Module) else None


_LATER = EVALUATED_LATER | m.BooleanOperation() | m.IfExp()


def _target(line: cst.BaseStatement, call: cst.Call) -> str:
    """Return the name to which a line assigns the call's result, and nothing else; else ""."""
    target = m.AssignTarget(m.SaveMatchedNode(m.Name(), "name"))
    assign = m.Assign([target], m.MatchIfTrue(lambda value: value is call))
    found = m.extract(line, m.SimpleStatementLine([assign]))
    return cst.ensure_type(found["name"], cst.Name).value if found is not None else ""


def _append(sight: Sight, seen: str, result: str = RESULT) -> str:
    """Return the statement that notes the value; `result` is the variable that has what the call returned."""
    expression = sight.expression
    if sight.is_result:
        expression = _RESULT.sub(result, expression, count=1)
    return f"{seen}.append({expression}{'.detach().clone()' if sight.is_tensor else ''})"


class _Lines:
    """The lines and compound statements of a module by their positions."""

    def __init__(self, wrapper: MetadataWrapper) -> None:
        self._positions = wrapper.resolve(PositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self._module, self._texts = wrapper.module, wrapper.module.code.splitlines()

    def _byte(self, position: CodePosition) -> int:
        """Return the column as Python counts it, in bytes of UTF-8."""
        return len(self._texts[position.line - 1][: position.column].encode())

    def at(self, number: int) -> cst.BaseStatement | None:
        """Return the innermost line, or compound statement, at a line number."""
        nodes = m.findall(self._module, m.SimpleStatementLine() | _COMPOUND)
        spans = [(self._span(node), node) for node in nodes]
        around = [(last - first, node) for (first, last), node in spans if first <= number <= last]
        found = min(around, key=lambda pair: pair[0], default=(0, None))[1]
        return found if isinstance(found, cst.BaseStatement) and not m.matches(found, _DEFINITION) else None

    def _span(self, node: cst.CSTNode) -> tuple[int, int]:
        where = self._positions[node]
        return where.start.line, where.end.line

    def function(self, place: Place) -> cst.FunctionDef | None:
        """Return the function of a place."""
        name, first = place.function
        for node in m.findall(self._module, m.FunctionDef(name=m.Name(name))):
            assert isinstance(node, cst.FunctionDef)
            decorators = [self._span(each)[0] for each in node.decorators]
            if min([self._span(node)[0], *decorators]) == first and isinstance(node.body, cst.IndentedBlock):
                return node
        return None

    def loop(self, line: cst.BaseStatement) -> cst.For | cst.While | None:
        """Return the innermost loop around a line, in the same function."""
        node: cst.CSTNode = line
        while not isinstance(node, (cst.For, cst.While)):
            node = self._parents.get(node, self._module)
            if isinstance(node, (cst.Module, cst.FunctionDef)):
                return None
        return node if isinstance(node.body, cst.IndentedBlock) else None

    def call(self, line: cst.BaseStatement, place: Place) -> cst.Call | None:
        """Return the call that was running; below Python 3.11 the only call of the line."""
        head = line if isinstance(line, cst.SimpleStatementLine) else _head(line)
        calls = [node for node in m.findall(head, m.Call()) if isinstance(node, cst.Call)] if head is not None else []
        if place.columns is None:
            return calls[0] if len(calls) == 1 else None
        for call in calls:
            begin, end = self._positions[call].start, self._positions[call].end
            if (begin.line, self._byte(begin), end.line, self._byte(end)) == place.columns:
                return call
        return None


_COMPOUND = m.If() | m.For() | m.While() | m.With() | m.Try() | m.Match() | _DEFINITION


def _head(node: cst.BaseStatement) -> cst.CSTNode | None:
    """Return the expression that a compound statement evaluates once, at its beginning."""
    match node:
        case cst.If(test=head) | cst.For(iter=head) | cst.With(items=[cst.WithItem(item=head), *_]):
            return head
    return None


_Block = TypeVar("_Block", cst.FunctionDef, cst.For | cst.While)


def _at_end(function: _Block, statement: cst.BaseStatement) -> _Block:
    """Return the function or loop with a statement at its end, ahead of a last `return`."""
    body = [*function.body.body]
    is_return = bool(body) and m.matches(body[-1], m.SimpleStatementLine(body=[m.ZeroOrMore(), m.Return()]))
    body.insert(len(body) - is_return, statement)
    return function.with_changes(body=function.body.with_changes(body=body))


_Statements = tuple[cst.CSTNode, ...]


def _split(module: cst.Module, *, once: bool) -> tuple[_Statements, _Statements]:
    """Return the module's statements that run once, and those that run twice.

    With `once` these are also definitions and constants, unless they need a value that the others make.
    """
    first = [node for node in module.body if m.matches(node, _IMPORT | _DOCSTRING)]
    if once:
        plain = [node for node in module.body if m.matches(node, _DEFINITION | _CONSTANT)]
        rest = [node for node in module.body if node not in first and node not in plain]
        bound = set(_bound(module, rest))
        if not any(bound.intersection(_read_at_once(node)) for node in plain):
            first = [node for node in module.body if node not in rest]
    return tuple(first), tuple(node for node in module.body if node not in first)


def _read_at_once(node: cst.CSTNode) -> set[str]:
    """Return the names that a definition reads when it is executed: in decorators, defaults, bases, a class's body."""
    if isinstance(node, cst.FunctionDef):
        parameters = [each for each in m.findall(node.params, m.Param()) if isinstance(each, cst.Param)]
        values = (part for each in parameters for part in (each.default, each.annotation) if part is not None)
        parts: list[cst.CSTNode] = [*node.decorators, *values]
    elif isinstance(node, cst.ClassDef):
        inner = (part for part in node.body.body if not m.matches(part, m.FunctionDef()))
        methods = (name for part in node.body.body for name in _read_at_once(part))
        return {
            root(name) for part in (*node.decorators, *node.bases, *inner) for name in m.findall(part, m.Name())
        } | {*methods}
    else:
        return set()
    return {root(name) for part in parts for name in m.findall(part, m.Name())}


def _bound(module: cst.Module, statements: Sequence[cst.CSTNode]) -> list[str]:
    """Return the names that statements of the module bind."""
    text = "".join(map(module.code_for_node, statements))
    symbols = symtable.symtable(text, "script", "exec").get_symbols() if text.strip() else []
    return [each.get_name() for each in symbols if each.is_assigned() or each.is_imported() or each.is_namespace()]


def _written(
    module: cst.Module, parts: tuple[_Statements, _Statements], sight: Sight, names: set[str]
) -> tuple[str, int]:
    """Return the script with the statements of the second part in a function, which is called twice.

    Return the line after that function too, where the check begins.
    """
    first, twice = parts
    run, seen, actual = (unused(name, names) for name in ("run", "seen", "actual"))
    plain = [_within_function(node) for node in twice]
    bound = _bound(module, twice)
    imported = _imported(first)
    has_seed = bool(generators_seeded(module.code))
    seeds = [] if has_seed else [f"{imported[name]}.{call}" for name, call in _SEEDS.items() if name in imported]
    head = [f"global {', '.join(bound)}"] if bound else []
    block = cst.IndentedBlock([*map(cst.parse_statement, [*head, *seeds]), *plain])
    function = cst.FunctionDef(cst.Name(run), cst.Parameters(), block).with_changes(leading_lines=[cst.EmptyLine()] * 2)
    torch = imported.get("torch", "torch")
    text = module.with_changes(body=[*first]).code.rstrip()
    if "torch" not in imported:
        text += "\nimport torch"
    text += "\n\n\n" if sight.error else f"\n\n{seen} = []\n\n\n"
    text += cst.Module([function]).code.strip() + "\n\n\n"
    make = _error_check if sight.error else _value_check
    return text + make(run, seen, actual, torch, sight), text.count("\n") + 1


def _within_function(node: Any) -> Any:
    """Return a statement of the module for a function's body: global names have no annotations, no blank lines."""
    annotated: Any = [] if m.matches(node, _DEFINITION) else m.findall(node, m.AnnAssign())
    plain = {
        each: [cst.Assign([cst.AssignTarget(each.target)], each.value)] if each.value else [] for each in annotated
    }
    node = changed(node, plain) or cst.SimpleStatementLine([cst.Pass()])
    lines = [line for line in getattr(node, "leading_lines", ()) if line.comment is not None]
    blank = [cst.EmptyLine(indent=False)] if m.matches(node, _DEFINITION) else []
    return node.with_changes(leading_lines=[*blank, *lines])


def _value_check(run: str, seen: str, actual: str, torch: str, sight: Sight) -> str:
    if sight.tolerance is None:
        check = f'assert {actual} == {seen}, f"{{{actual}}}, in eager mode {{{seen}}}"'
    else:
        limit = f"rtol={sight.relative:.0e}, atol={sight.tolerance:.0e}, equal_nan=True"
        check = f"{torch}.testing.assert_close({actual}, {seen}, {limit})"
    stance = f'with {torch}.compiler.set_stance("force_eager"):\n    {run}()\n'
    return f"{run}()\n{actual} = list({seen})\n{seen}.clear()\n{stance}{check}\n"


def _error_check(run: str, seen: str, actual: str, torch: str, sight: Sight) -> str:
    return (
        f"def outcome():\n    try:\n        {run}()\n    except Exception as error:\n"
        '        return type(error).__name__\n    return "no exception"\n\n\n'
        f'{actual} = outcome()\nwith {torch}.compiler.set_stance("force_eager"):\n    {seen} = outcome()\n'
        f'assert {actual} == {seen}, f"{{{actual}}}, in eager mode {{{seen}}}"\n'
    )


def _imported(statements: Sequence[cst.CSTNode]) -> dict[str, str]:
    """Return modules by the names that imports bind them to."""
    aliases = [each for node in statements if m.matches(node, _IMPORT) for each in m.findall(node, m.Import())]
    found: dict[str, str] = {}
    for node in aliases:
        assert isinstance(node, cst.Import)
        for alias in node.names:
            name = alias.evaluated_name
            found.setdefault(name.partition(".")[0] if alias.asname is None else name, alias.evaluated_alias or name)
    return {name: bound.partition(".")[0] for name, bound in found.items()}
