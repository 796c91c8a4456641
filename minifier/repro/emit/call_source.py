"""Write the calls of torch.compile, the calls before the failing call, and the functions that these compile."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from minifier.data.case import Call, Case, ScalarInput, Symbolic
from minifier.data.case.calls import called, shares_function
from minifier.data.case.literals import literal
from minifier.repro.emit.forms import Form, Subject, Template, makes_inputs, subject_of
from minifier.repro.emit.graph_source import function_source
from minifier.repro.emit.input_source import call_that_makes_symbols, call_with_other_inputs, tensor_source
from minifier.repro.emit.naming import Names
from minifier.repro.emit.script_text import under
from minifier.repro.emit.steps import Step, attempts_for, compile_call, other_step

_COPIED = "compiled(*map(copy.deepcopy, inputs()))"


@dataclass(frozen=True, slots=True)
class CallSource:
    """Source of the calls before the failing call, and of every call of torch.compile in the script.

    `compiled` is the expression of the compiled function; if several calls share it, `head` assigns it ahead of them.
    `backend` is the backend's expression, and `arguments` are further arguments of torch.compile. `bindings` are
    statements that create a backend for several calls of torch.compile. `functions` are definitions. `steps` are the
    earlier calls; a number stands for so many calls as the form makes the failing one. `in_a_row` is the number of the
    form's own calls, the failing one included.
    """

    compiled: str
    head: tuple[str, ...]
    backend: str
    arguments: tuple[str, ...]
    bindings: tuple[str, ...]
    functions: tuple[str, ...]
    steps: tuple[Step | int, ...]
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

    def steps(self, call: Call) -> Iterator[Step | int]:
        text = self._text(call)
        yield Step(text if call.times == 1 else under(f"for _ in range({call.times}):", [text])) if text else call.times
        if call.pause:
            self.imports.append("import time")
            yield other_step(f"time.sleep({call.pause:g})")

    def _text(self, call: Call) -> str:
        if call.graph is not None:
            return self._other(call)
        if call.has_other_inputs:
            return call_with_other_inputs(self.case, call, self.inputs)
        if self.repeat == _COPIED:
            self.imports.append("import copy")
        return self.repeat

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
        source = function_source(earlier.graph, names, inputs)
        self.functions += [*source.before, under(f"def {name}({', '.join(source.parameters)}):", source.body)]
        self.imports += source.imports
        return compile_call(name, self.backend, self.arguments)


def unused(name: str, reserved: Collection[str], number: int = 0) -> str:
    """Return the unreserved name at index `number` in the series name, name2, name3, ..."""
    names = itertools.chain((name,), (f"{name}{n}" for n in itertools.count(2)))
    return next(itertools.islice((each for each in names if each not in reserved), number, None))


def call_source(
    case: Case,
    form: Form,
    backend: str,
    arguments: tuple[str, ...],
    reserved: Collection[str],
    inputs: Mapping[str, str],
) -> CallSource:
    """Return the source of the Case's calls, among them the call that makes symbols of its numbers.

    `backend` is the backend's expression, and `arguments` are further arguments of torch.compile. `reserved` are the
    names of the script, `inputs` those of the inputs. Raises NoRepro if a call cannot be written.
    """
    template, variant = form
    fresh = makes_inputs(case, form)
    shared = [shares_function(case, call) for call in case.others]
    if any(shared):  # each size is compiled anew
        arguments = (*(text for text in arguments if not text.startswith("dynamic=")), "dynamic=False")
    has_more = not all(shared)  # calls of torch.compile
    name = unused("backend", reserved) if has_more and _makes_object(backend) else backend
    repeat = _COPIED if fresh else ""
    compares_calls = template is Template.COMPARE and subject_of(case) is Subject.RESULTS_OF_CALLS
    if compares_calls:  # the last two
        case, repeat = called(case, case.calls - 1), f"compiled({', '.join(inputs.values())})"
    writer = _Writer(case, name, arguments, reserved, inputs, repeat)
    in_a_row = 1 if repeat else case.calls_in_a_row
    before = case.before if in_a_row == 1 else case.before[:-1]
    steps = [step for call in before for step in writer.steps(call)]
    if variant.symbolic is Symbolic.AUTOMATIC and template is not Template.CALL_BACKEND:
        ahead = itertools.takewhile(lambda call: call.graph is not None, before)
        first = sum(2 if call.pause else 1 for call in ahead)
        steps.insert(first, Step(call_that_makes_symbols(case, inputs)))
    if fresh and inputs:  # the form's own calls need no names of inputs
        named = re.compile(rf"compiled\(.*\b(?:{'|'.join(inputs.values())})\b")
        place = next((i for i, step in enumerate(steps) if isinstance(step, Step) and named.search(step.text)), None)
        if place is not None:
            names = ", ".join(inputs.values())
            steps.insert(place, other_step(f"{names} = inputs()" if len(inputs) > 1 else f"({names},) = inputs()"))
    bindings = (f"{name} = {backend}",) if name != backend else ()
    head: tuple[str, ...] = ()
    compiled = compile_call(template.compiled, name, arguments)
    loops = in_a_row > 1 or (attempts_for(case.rate) > 1 and not variant.recompile)
    earlier = any(isinstance(step, int) or "compiled(" in step.text for step in steps)
    if template.compiled and (loops or earlier or compares_calls):
        compiled, head = "compiled", (f"compiled = {compiled}",)
    functions, imports = tuple(writer.functions), tuple(writer.imports)
    return CallSource(compiled, head, name, arguments, bindings, functions, tuple(steps), imports, in_a_row)


def _makes_object(expression: str) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(expression, mode="eval")))
