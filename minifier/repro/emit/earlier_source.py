"""Write the calls before the failing call, and the other functions that they compile."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from minifier.data.case import Call, Case, ScalarInput, Symbolic
from minifier.data.case.calls import called, shares_function
from minifier.data.case.literals import literal
from minifier.errors import NoRepro
from minifier.repro.emit.forms import Form, Template
from minifier.repro.emit.graph_source import function_source
from minifier.repro.emit.input_source import call_that_makes_symbols, call_with_other_inputs, tensor_source
from minifier.repro.emit.naming import Names

_COPIES = (Template.COMPARE_FRESH, Template.COMPARE_INPUTS)  # whose earlier calls get inputs that share no memory
_COPIED = "compiled(*map(copy.deepcopy, inputs()))"


@dataclass(frozen=True, slots=True)
class EarlierSource:
    """Source of the calls before the failing call, and the arguments of every torch.compile in the script.

    `bindings` are statements that create a backend for several calls of torch.compile. `functions` are definitions.
    `statements` are calls; a number stands for so many calls as the template makes the failing one. `in_a_row` is the
    number of the template's own calls, the failing one included.
    """

    backend: str
    arguments: tuple[str, ...]
    bindings: tuple[str, ...]
    functions: tuple[str, ...]
    statements: tuple[str | int, ...]
    imports: tuple[str, ...]
    in_a_row: int


@dataclass
class _Writer:
    case: Case
    backend: str
    arguments: tuple[str, ...]
    reserved: Collection[str]
    inputs: Mapping[str, str]
    repeat: str  # the source of an earlier call with the same inputs; "": the template's own statements, once more
    functions: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)

    def statements(self, call: Call) -> Iterator[str | int]:
        yield self._calls(call)
        if call.pause:
            self.imports.append("import time")
            yield f"time.sleep({call.pause:g})"

    def _calls(self, call: Call) -> str | int:
        if call.graph is not None:
            return _loop(call.times, self._other(call))
        if call.has_other_inputs:
            return _loop(call.times, call_with_other_inputs(self.case, call, self.inputs))
        if self.repeat == _COPIED:
            self.imports.append("import copy")
        return _loop(call.times, self.repeat) if self.repeat else call.times

    def _other(self, call: Call) -> str:
        assert call.graph is not None, "a call of another graph"
        inputs = [
            literal(item.value) if isinstance(item, ScalarInput) else tensor_source(item, self.case.state.default_dtype)
            for item in call.inputs
        ]
        function = "compiled" if shares_function(self.case, call) else self._compiled(self.case.of(call))
        text = f"{function}({', '.join(inputs)})"
        if call.backward:
            (outputs,) = call.graph.output.args
            several = isinstance(outputs, (tuple, list)) and len(outputs) > 1
            backward = "torch.autograd.backward([y.sum() for y in {} if y.requires_grad])"
            text = backward.format(text) if several else f"{text}.sum().backward()"
        return text

    def _compiled(self, earlier: Case) -> str:
        name = unused("earlier", self.reserved, len(self.functions))
        names = Names(self.reserved)
        inputs = {node.name: names.for_input(earlier, node.name) for node in earlier.graph.placeholders}
        source = function_source(earlier.graph, names, inputs, _refuse_module)
        body = "\n".join(f"    {line}" for line in source.body)
        self.functions += [*source.before, f"def {name}({', '.join(source.parameters)}):\n{body}"]
        self.imports += source.imports
        return f"torch.compile({', '.join((name, f'backend={self.backend}', *self.arguments))})"


def _loop(times: int, call: str) -> str:
    return call if times == 1 else f"for _ in range({times}):\n    {call}"


def _refuse_module(target: str) -> str:
    raise NoRepro(f"a graph ahead of the failing one calls the module {target}")


def unused(name: str, reserved: Collection[str], number: int = 0) -> str:
    """Return the unreserved name at index `number` in the series name, name2, name3, ..."""
    names = itertools.chain((name,), (f"{name}{n}" for n in itertools.count(2)))
    return next(itertools.islice((each for each in names if each not in reserved), number, None))


def earlier_source(
    case: Case,
    form: Form,
    backend: str,
    arguments: tuple[str, ...],
    reserved: Collection[str],
    inputs: Mapping[str, str],
) -> EarlierSource:
    """Return the source of the Case's earlier calls, and of the call that makes symbols of its numbers.

    `backend` is the backend's expression, and `arguments` are further arguments of torch.compile. `reserved` are the
    names of the script, `inputs` those of the inputs. Raises NoRepro if a call cannot be written.
    """
    template, variant = form
    shared = [shares_function(case, call) for call in case.others]
    if any(shared):  # each size is compiled anew
        arguments = (*(text for text in arguments if not text.startswith("dynamic=")), "dynamic=False")
    has_more = not all(shared)  # calls of torch.compile
    name = unused("backend", reserved) if has_more and _makes_object(backend) else backend
    repeat = _COPIED if template in _COPIES else ""
    if template is Template.KEEP_RESULT:  # which makes two of the calls itself
        case, repeat = called(case, case.calls - 1), f"compiled({', '.join(inputs.values())})"
    writer = _Writer(case, name, arguments, reserved, inputs, repeat)
    in_a_row = 1 if repeat else case.calls_in_a_row
    before = case.before if in_a_row == 1 else case.before[:-1]
    statements = [statement for call in before for statement in writer.statements(call)]
    if variant.symbolic is Symbolic.AUTOMATIC and template is not Template.CALL_BACKEND:
        ahead = itertools.takewhile(lambda call: call.graph is not None, before)
        first = sum(2 if call.pause else 1 for call in ahead)
        statements.insert(first, call_that_makes_symbols(case, inputs))
    if template in _COPIES and inputs:  # whose own calls need no names of inputs
        named = re.compile(rf"compiled\(.*\b(?:{'|'.join(inputs.values())})\b")
        place = next((i for i, each in enumerate(statements) if isinstance(each, str) and named.search(each)), None)
        if place is not None:
            names = ", ".join(inputs.values())
            statements.insert(place, f"{names} = inputs()" if len(inputs) > 1 else f"({names},) = inputs()")
    bindings = (f"{name} = {backend}",) if name != backend else ()
    return EarlierSource(
        name, arguments, bindings, tuple(writer.functions), tuple(statements), tuple(writer.imports), in_a_row
    )


def _makes_object(expression: str) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(expression, mode="eval")))
