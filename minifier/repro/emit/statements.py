"""Make the statements of a script behind its definitions: the calls, in their state, and what its form adds to them.

repro_templates/ shows each form. Its helper functions and imports are those of its template.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from minifier.data.case import Call, Case, ScalarInput, Symbolic
from minifier.data.case.calls import called, shares_function
from minifier.data.case.graph import Graph
from minifier.data.case.literals import literal
from minifier.data.case.switches import contexts
from minifier.data.failure import Aspect, Kind
from minifier.data.templates import template_source
from minifier.repro.emit.forms import Form, Subject, Template, assert_close_arguments, makes_inputs, subject_of
from minifier.repro.emit.graph_source import function_source
from minifier.repro.emit.input_source import call_that_makes_symbols, call_with_other_inputs, tensor_source
from minifier.repro.emit.return_source import backward_pass, gradients
from minifier.repro.emit.script_text import Names, predicate_source, statements_of, under, under_contexts

THE_END = "It was not ended."  # last output of a script whose failure would end it early with status 0

_MISS_PROBABILITY = 0.001  # chance that the script of a flaky failure ends without showing it
_MAX_ATTEMPTS = 1000
_MEMORY_LIMIT_GIB, _MIN_MEMORY_LIMIT_GIB = 4, 2  # for a script that exhausts memory; torch itself needs the minimum
_MIN_TIMEOUT_SECONDS = 20  # a new interpreter needs several seconds to compile anything


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of a script.

    in_state: it calls the function, so it runs in the Case's state.
    compiles: it compiles, or calls compiled code. Statements ahead of the first such one are not repeated.
    """

    text: str
    in_state: bool = True
    compiles: bool = True


def other_step(text: str) -> Step:
    """Return a step that does not call the function."""
    return Step(text, in_state=False, compiles=False)


@dataclass(frozen=True, slots=True)
class FormSource:
    """What the form of a script adds to a Case's function and inputs.

    `definitions` are functions and classes, `inputs` statements behind those that create the Case's inputs. `draws`:
    the script draws random numbers besides its inputs.
    """

    steps: tuple[Step, ...]
    definitions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    draws: bool = False


def compile_call(function: str, backend: str, arguments: Sequence[str]) -> str:
    """Return the call of torch.compile with this backend and these further arguments."""
    return f"torch.compile({', '.join([function, f'backend={backend}', *arguments])})"


def attempts_for(rate: float) -> int:
    """Return the number of attempts after which a failure of this rate is missed with _MISS_PROBABILITY."""
    if rate >= 1:
        return 1
    return min(_MAX_ATTEMPTS, math.ceil(math.log(_MISS_PROBABILITY) / math.log1p(-max(rate, 1e-6))))


def guard_seconds(case: Case) -> int:
    """Return the time limit of a hanging script in seconds; 0 for any other failure."""
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        return 0
    return max(_MIN_TIMEOUT_SECONDS, math.ceil(case.patience))


def guard_gibibytes(case: Case, memory: int | None = None) -> int:
    """Return the memory limit in GiB of a script that exhausts memory; 0 for any other failure.

    `memory` is the number of bytes that the script may use during verification.
    """
    on_device = case.failure.type.endswith("OutOfMemoryError")  # a process limit does not cover device memory
    if case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY or on_device:
        return 0
    limit = _MEMORY_LIMIT_GIB
    if memory is not None:
        limit = max(_MIN_MEMORY_LIMIT_GIB, min(limit, math.ceil(memory / 2**30)))
    return limit + math.floor(2 * _input_bytes(case) / 2**30)


def _input_bytes(case: Case) -> int:
    import torch

    return sum(item.meta.elements * getattr(torch, item.meta.dtype).itemsize for item in case.tensor_inputs)


def wrapped(
    case: Case,
    steps: Sequence[Step],
    head: Sequence[str],
    earlier: Sequence[Step | int],
    calls: int,
    *,
    recompile: bool,
    memory: int | None,
) -> tuple[list[str], list[str]]:
    """Return (the last statements of the Case's script, imports that they need).

    `head` assigns the compiled function, or is empty. `earlier` are the calls before the failing one; a number stands
    for so many runs of the steps. `calls` is how often the steps run in the end, in each attempt of a flaky failure.
    With `recompile` each attempt compiles anew. `memory` is the number of bytes that the script may use during
    verification.
    """
    state, attempts = contexts(case.state), attempts_for(case.rate)
    called = [i for i, step in enumerate(steps) if step.in_state]
    first, last = called[0], called[-1]  # statements between two calls share their `with`
    steps = [replace(step, in_state=first <= i <= last) for i, step in enumerate(steps)]
    start = next(i for i, step in enumerate(steps) if step.compiles)
    start = first if state and first < start <= last else start
    before, steps = [step.text for step in steps[:start]], steps[start:]
    runs = [(_repeated(each, steps, state) if isinstance(each, int) else [each]) for each in (*earlier, calls)]
    body = _in_state([*itertools.chain(*runs)], state)
    imports = []
    if seconds := guard_seconds(case):
        imports.append("import faulthandler")
        guard = f"faulthandler.dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s"
        body.insert(0, guard)
    if gib := guard_gibibytes(case, memory):
        imports.append("import resource")
        guard = f"resource.setrlimit(resource.RLIMIT_DATA, ({gib} << 30, {gib} << 30))"
        before.append(f"{guard}  # it takes all memory: this ends it at {gib} GiB")
    if attempts > 1 and recompile:
        body, head = ["torch.compiler.reset()", *head, *body], []
    if attempts > 1:
        body = [under(f"for attempt in range({attempts}):", body)]
    fingerprint = case.failure.fingerprint
    if case.failure.type == "torch.AcceleratorError" and not fingerprint.stage.compiles:  # its kernel is asynchronous
        body.append("torch.accelerator.synchronize()")
    if fingerprint.exits_with_0:
        body.append(f"print({literal(THE_END)})")
    return [*before, *head, *body], imports


def _repeated(times: int, steps: Sequence[Step], state: Sequence[str]) -> Sequence[Step]:
    return [other_step(under(f"for _ in range({times}):", _in_state(steps, state)))] if times > 1 else steps


def _in_state(steps: Sequence[Step], state: Sequence[str]) -> list[str]:
    """Return the statements, with those in a row that need the state under one `with`."""
    statements: list[str] = []
    for in_state, group in itertools.groupby(steps, lambda step: step.in_state):
        texts = [step.text for step in group]
        statements += under_contexts(texts, state) if in_state else texts
    return statements


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
    compiled = compile_call("fn", name, arguments)
    loops = in_a_row > 1 or (attempts_for(case.rate) > 1 and not variant.recompile)
    earlier = any(isinstance(step, int) or "compiled(" in step.text for step in steps)
    if not template.hides_stage and (loops or earlier or compares_calls):
        compiled, head = "compiled", (f"compiled = {compiled}",)
    functions, imports = tuple(writer.functions), tuple(writer.imports)
    return CallSource(compiled, head, name, arguments, bindings, functions, tuple(steps), imports, in_a_row)


def _makes_object(expression: str) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(expression, mode="eval")))


_RANDOM_OPS = {
    "alpha_dropout", "bernoulli", "bernoulli_", "cauchy_", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "exponential_", "feature_alpha_dropout", "feature_dropout", "geometric_", "gumbel_softmax", "log_normal_",
    "multinomial", "native_dropout", "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "random_", "randperm", "rrelu", "rrelu_", "uniform_",
}  # fmt: skip
_SEED = "torch.manual_seed(0)"
_CHECK_OF_EXCEPTIONS = """\
print("eager:   ", repr(expected))
print("compiled:", repr(actual))
assert expected is None or actual is not None, "eager raises, the compiled function does not\""""
_CHECK_OF_AUTOGRAD = """\
message = "requires_grad or is_leaf is not as in eager"
assert (actual.requires_grad, actual.is_leaf) == (expected.requires_grad, expected.is_leaf), message"""
_CHECK_OF_AUTOGRAD_OF_EACH = """\
message = "requires_grad or is_leaf is not as in eager"
for a, e in zip(actual, expected):
    assert (a.requires_grad, a.is_leaf) == (e.requires_grad, e.is_leaf), message"""


def imports_of_template(template: Template) -> list[str]:
    """Return the import lines of a template."""
    statements = statements_of(template_source(template.value))
    return [text for node, text in statements if isinstance(node, (ast.Import, ast.ImportFrom))]


def _helper(name: str) -> str:
    """Return a helper function of the comparing template."""
    statements = statements_of(template_source(Template.COMPARE.value))
    return next(text for node, text in statements if isinstance(node, ast.FunctionDef) and node.name == name)


def form_source(case: Case, form: Form, calls: CallSource, inputs: dict[str, str], names: Names) -> FormSource:
    """Return what the form adds to the script. `inputs` maps placeholders to parameter names.

    Raises NoRepro if the form cannot hold the graph's results or gradients.
    """
    template, compiled = form[0], calls.compiled
    arguments = ", ".join(inputs[node.name] for node in case.graph.placeholders)
    if template is Template.COMPARE:
        return _comparison(case, form, compiled, arguments, inputs)
    if template is Template.RUN_BACKWARD:
        targets, backward = backward_pass(case, names)
        return FormSource((Step(f"{targets} = {compiled}({arguments})"), other_step(backward)), draws=True)
    if template is Template.CALL_BACKEND:
        trace = other_step("graph = torch.fx.symbolic_trace(fn)")
        given = ", ".join(["graph", f"[{arguments}]", *calls.arguments])
        return FormSource((trace, Step(f"lookup_backend({calls.backend})({given})({arguments})")))
    return FormSource((Step(f"{compiled}({arguments})"),))


def _is_random(graph: Graph) -> bool:
    """Whether an op draws random numbers. An op with an argument False is a dropout with training off."""
    return any(n.short_target in _RANDOM_OPS and False not in (*n.args, *n.kwargs.values()) for n in graph.ops)


_SEEDED = (Subject.RESULTS, Subject.INPUTS, Subject.GRADIENTS, Subject.PREDICATE)


def _comparison(case: Case, form: Form, compiled: str, arguments: str, inputs: dict[str, str]) -> FormSource:
    """Return a script that keeps something of an eager and of a compiled call, and compares both."""
    subject, fresh, is_random = subject_of(case), makes_inputs(case, form), _is_random(case.graph)
    output = case.graph.output.args[0]
    several = isinstance(output, (tuple, list)) and len(output) > 1
    tangents, gradients_of = gradients(case, inputs) if subject is Subject.GRADIENTS else ("", "")

    def kept(function: str) -> str:
        call = f"{function}({'*inputs()' if fresh else arguments})"
        if subject is Subject.GRADIENTS:
            return f"torch.autograd.grad({call}{gradients_of})"
        if subject is Subject.STORAGES:
            return f"sharing({', '.join(filter(None, [arguments, '*' * several + call]))})"
        if subject is Subject.EXCEPTIONS:
            return f"error_of({', '.join(filter(None, [function, arguments]))})"
        return call

    head: list[Step] = []
    eager, actual = f"expected = {kept('fn')}", f"actual = {kept(compiled)}"
    if subject is Subject.INPUTS:
        head = [other_step("expected, actual = inputs(), inputs()")]
        eager, actual = "fn(*expected)", f"{compiled}(*actual)"
    elif subject is Subject.RESULTS_OF_CALLS:
        eager, actual = f"first = {kept(compiled)}", f"second = {kept(compiled)}"
    if is_random and subject in _SEEDED and not (fresh and subject is Subject.RESULTS):
        eager, actual = f"{_SEED}\n{eager}", f"{_SEED}\n{actual}"
    check = _check(case, subject, form[1].equal_nan, several)
    predicate = predicate_source(case.measure.predicate if subject is Subject.PREDICATE else "")
    helpers = {Subject.STORAGES: "sharing", Subject.EXCEPTIONS: "error_of"}
    return FormSource(
        (*head, Step(eager, compiles=subject is Subject.RESULTS_OF_CALLS), Step(actual), other_step(check)),
        (*filter(None, [predicate.source]), *([_helper(helpers[subject])] if subject in helpers else ())),
        (tangents,) if tangents else (),
        predicate.imports,
        draws=subject is Subject.GRADIENTS or (fresh and is_random),
    )


def _check(case: Case, subject: Subject, equal_nan: bool, several: bool) -> str:
    """Return the statements that fail if what was kept differs."""
    if subject is Subject.STORAGES:
        return 'assert actual == expected, "the results do not share memory as in eager"'
    if subject is Subject.EXCEPTIONS:
        return _CHECK_OF_EXCEPTIONS
    if subject is Subject.RESULTS_OF_CALLS:
        addresses = "{y.data_ptr() for y in %s}"
        differ = f"not {addresses % 'first'} & {addresses % 'second'}"
        differ = differ if several else "first.data_ptr() != second.data_ptr()"
        return f'assert {differ}, "the result is written over the result of an earlier call"'
    if subject is Subject.PREDICATE:
        results = "list(actual), list(expected)" if several else "[actual], [expected]"
        return f'assert not differs({results}), "the compiled result differs from the eager one"'
    if case.failure.fingerprint.message == Aspect.AUTOGRAD.value:
        return _CHECK_OF_AUTOGRAD_OF_EACH if several else _CHECK_OF_AUTOGRAD
    return f"torch.testing.assert_close({', '.join(['actual', 'expected', *assert_close_arguments(case, equal_nan)])})"
