"""Fill a template, which is a runnable script: put the Case's source texts in the place of the template's own."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from minifier.data.case import Case, Graph
from minifier.data.case.literals import literal
from minifier.data.case.switches import contexts
from minifier.data.failure import Aspect, Stage
from minifier.data.templates import template_source
from minifier.repro.emit.forms import Template, Variant, assert_close_arguments
from minifier.repro.emit.naming import Names
from minifier.repro.emit.return_source import backward_function, backward_pass, gradients
from minifier.repro.emit.script_text import (
    Definitions,
    blank_lines_above,
    is_stdlib,
    keep_script_names,
    page,
    predicate_source,
    replaced_at_once,
    sorted_imports,
    statements_of,
    under,
    under_contexts,
)

THE_END = "It was not ended."  # last output of a script whose failure would end it early with status 0


@dataclass(frozen=True, slots=True)
class Wrapping:
    """Code around the last statements of a script."""

    before: tuple[str | int, ...] = ()  # earlier calls: a statement, or how often those of the template come
    calls: int = 1  # of the compiled function in a row; the last one fails
    attempts: int = 1
    recompile: bool = True  # in each attempt
    timeout_seconds: int = 0  # ends a script that hangs; 0: no limit
    memory_gib: int = 0  # ends a script that exhausts memory; 0: no limit
    waits: bool = False  # for the device at the end: the failing kernel is asynchronous
    prints_end: bool = False  # prints THE_END at the end, if nothing else shows that the failure is absent


@dataclass(frozen=True, slots=True)
class Filling:
    """Source texts for a template.

    `environment` are statements that run before torch is imported, `before` the functions that `fn` calls.
    `first_imports` keep their order and precede the sorted `imports`. If there is an `environment`, imports of the
    standard library precede both.
    `replacements` maps texts of the template to new texts, before inputs and backend are filled in. `definitions`
    replaces functions and classes, by name. `script_definitions` come from the user's script; the template's own
    uses of `script_names` are renamed.
    """

    imports: tuple[str, ...]
    first_imports: tuple[str, ...]
    environment: tuple[str, ...]
    settings: tuple[str, ...]
    settings_of_script: tuple[str, ...]
    before: tuple[str, ...]
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    inputs: tuple[str, ...]
    arguments: tuple[str, ...]
    backend: str
    backend_arguments: tuple[str, ...]
    contexts: tuple[str, ...]
    footer: tuple[str, ...]
    replacements: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    wrapping: Wrapping = field(default_factory=Wrapping)
    script_definitions: Definitions = field(default_factory=Definitions)
    script_names: frozenset[str] = frozenset()


def fill(name: str, filling: Filling) -> str:
    """Return the script: imports, settings, functions, inputs, and the last statements of the template `name`."""
    text = template_source(name)
    missing = [old for old in filling.replacements if old not in text]
    assert not missing, f"the template {name} has no {missing}"
    text = replaced_at_once(text, filling.replacements)
    imports = {*filling.imports, *filling.script_definitions.imports}
    definitions: list[str] = []
    inputs: tuple[str, ...] = ()
    action: list[_Step] = []
    for node, statement in statements_of(text):
        match node:
            case ast.Import() | ast.ImportFrom():
                imports.add(statement)
            case ast.FunctionDef(name="fn"):
                definitions += [*filling.before, _function("fn", filling.parameters, filling.body)]
            case ast.FunctionDef(name="inputs"):
                definitions.append(_inputs_function(filling))
            case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined):
                definitions += filling.definitions.get(defined, [_filled(statement, filling)])
            case ast.Assign(targets=[ast.Name(id="x")]):
                inputs = filling.inputs
            case _:
                step = _step(statement)
                action.append(replace(step, text=_filled(statement, filling)))
    last, more = _wrapped(action, filling)
    imports.update(more)
    stdlib = {"import os", *filter(is_stdlib, imports)} if filling.environment else set()
    own = filling.script_definitions
    script_code = [own.source] if own.source else []

    def kept(texts: Sequence[str]) -> list[str]:
        return [keep_script_names(each, filling.script_names) for each in texts]

    return page([
        (0, own.future),
        (0, sorted_imports(stdlib)),
        (1, filling.environment),
        (1, [*filling.first_imports, *sorted_imports(imports - stdlib - {*filling.first_imports})]),
        (1, filling.settings),
        (blank_lines_above(own.source), script_code),
        (2, kept(filling.settings_of_script)),
        *((2, kept([definition])) for definition in definitions),
        (2, kept([*inputs, *last])),
        (1, [f"# {line}".rstrip() for line in filling.footer]),
    ])  # fmt: skip


def _function(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    return under(f"def {name}({', '.join(parameters)}):", body)


def _inputs_function(filling: Filling) -> str:
    """Return a function that creates new inputs in each call. A single input is returned without an assignment."""
    lines, names = list(filling.inputs), ", ".join(filling.arguments)
    assignment = f"{filling.arguments[0]} = " if len(filling.arguments) == 1 else "\n"
    if lines and lines[-1].startswith(assignment):
        lines[-1] = f"return [{lines[-1].removeprefix(assignment)}]"
    else:
        lines.append(f"return [{names}]")
    return _function("inputs", (), lines)


# The template's input as an argument of the function, compiled or not. In other calls, `x` means a single tensor.
_INPUT = r"(?P<call>\)|\b(?:fn|f|compiled|compiler|sharing))\(x(?:\)|, (?=[\w*]))"


def _filled(statement: str, filling: Filling) -> str:
    """Put backend, backend arguments and inputs in the place of the template's, all at once: they may look like it."""
    arguments = ", ".join(filling.arguments)
    more = "".join(f", {each}" for each in filling.backend_arguments)
    new_texts = {
        'lookup_backend("eager")(graph, [x]': f"lookup_backend({filling.backend})(graph, [{arguments}]{more}",
        'backend="eager"': _backend_argument(filling),
        '"aot_eager_default_partitioner"': filling.backend,
        "range(2)": f"range({filling.wrapping.calls})",
        "[x]": f"[{arguments}]",
    }

    def filled(found: re.Match[str]) -> str:
        if found["call"] is None:
            return new_texts[found[0]]
        end = ")" if found[0].endswith(")") else ", " if arguments else ""
        return f"{found['call']}({arguments}{end}"

    return re.sub("|".join([*map(re.escape, new_texts), _INPUT]), filled, statement)


def _backend_argument(filling: Filling) -> str:
    """Return `backend=...` of torch.compile, with the further arguments."""
    return ", ".join([f"backend={filling.backend}", *filling.backend_arguments])


# Compiles, or calls compiled code. Earlier statements need no repetition and cannot hang.
_COMPILE_OR_RUN = re.compile(r"torch\.compile\(|\b(?:compiled|lookup_backend)\(")
# Calls the function, compiled or not: these statements need the state of the Case.
_CALL_OF_FUNCTION = re.compile(r"\)\(|\b(?:compiled|compiler|fn)\(")


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement, whether it needs the state of the Case, and whether it compiles or calls compiled code."""

    text: str
    in_state: bool = False
    compiles: bool = False


def _step(text: str) -> _Step:
    return _Step(text, _CALL_OF_FUNCTION.search(text) is not None, _COMPILE_OR_RUN.search(text) is not None)


def _wrapped(steps: list[_Step], filling: Filling) -> tuple[list[str], tuple[str, ...]]:
    """Return (the template's last statements with the code around them, imports that this code needs)."""
    wrapping, contexts = filling.wrapping, filling.contexts
    has_loop = any(step.text.startswith("for ") for step in steps)  # in the template
    head: list[str] = []
    repeats = (wrapping.calls > 1 and not has_loop) or (wrapping.attempts > 1 and not wrapping.recompile)
    if has_loop or repeats or any(isinstance(each, int) or "compiled(" in each for each in wrapping.before):
        head, steps = _hoisted(steps, filling)
    called = [i for i, step in enumerate(steps) if step.in_state]
    start = next((i for i, step in enumerate(steps) if step.compiles), 0)
    if called:  # statements between two calls share their `with`
        first, last = called[0], called[-1]
        steps = [replace(step, in_state=first <= i <= last) for i, step in enumerate(steps)]
        start = first if contexts and first < start <= last else start
    before, steps = [step.text for step in steps[:start]], steps[start:]
    imports: list[str] = []
    earlier: list[_Step] = []
    for each in wrapping.before:
        earlier += _repeated(each, steps, contexts) if isinstance(each, int) else [_step(each)]
    body = _in_state([*earlier, *_repeated(1 if has_loop else wrapping.calls, steps, contexts)], contexts)
    if seconds := wrapping.timeout_seconds:
        imports.append("import faulthandler")
        guard = f"faulthandler.dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s"
        body = [guard, *body]
    if gib := wrapping.memory_gib:
        imports.append("import resource")
        guard = f"resource.setrlimit(resource.RLIMIT_DATA, ({gib} << 30, {gib} << 30))"
        before.append(f"{guard}  # it takes all memory: this ends it at {gib} GiB")
    if wrapping.attempts > 1 and wrapping.recompile:
        body, head = ["torch.compiler.reset()", *head, *body], []
    if wrapping.attempts > 1:
        body = [under(f"for attempt in range({wrapping.attempts}):", body)]
    end = ["torch.accelerator.synchronize()"] if wrapping.waits else []
    end += [f"print({literal(THE_END)})"] if wrapping.prints_end else []
    return [*before, *head, *body, *end], tuple(imports)


def _hoisted(steps: list[_Step], filling: Filling) -> tuple[list[str], list[_Step]]:
    """Return (`compiled = torch.compile(...)`, the other statements). The first list is empty without torch.compile."""
    call = re.compile(rf"torch\.compile\([\w.]+, {re.escape(_backend_argument(filling))}\)")
    found = next((match for step in steps if (match := call.search(step.text))), None)
    if found is None:
        return [], steps
    assignment = f"compiled = {found[0]}"
    rest = [replace(step, text=call.sub("compiled", step.text)) for step in steps if step.text != assignment]
    return [assignment], rest


def _repeated(times: int, steps: list[_Step], contexts: Sequence[str]) -> list[_Step]:
    return [_Step(under(f"for _ in range({times}):", _in_state(steps, contexts)))] if times > 1 else steps


def _in_state(steps: Sequence[_Step], contexts: Sequence[str]) -> list[str]:
    """Return the statements, with those in a row that need the state under one `with`."""
    statements: list[str] = []
    for in_state, group in itertools.groupby(steps, lambda step: step.in_state):
        texts = [step.text for step in group]
        statements += under_contexts(texts, contexts) if in_state else texts
    return statements


_RANDOM_OPS = {
    "alpha_dropout", "bernoulli", "bernoulli_", "cauchy_", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "exponential_", "feature_alpha_dropout", "feature_dropout", "geometric_", "gumbel_softmax", "log_normal_",
    "multinomial", "native_dropout", "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "random_", "randperm", "rrelu", "rrelu_", "uniform_",
}  # fmt: skip
_AUTOGRAD = """\
message = "requires_grad or is_leaf is not as in eager"
assert (actual.requires_grad, actual.is_leaf) == (expected.requires_grad, expected.is_leaf), message"""
_AUTOGRAD_OF_EACH = """\
message = "requires_grad or is_leaf is not as in eager"
for a, e in zip(actual, expected):
    assert (a.requires_grad, a.is_leaf) == (e.requires_grad, e.is_leaf), message"""
_SEED = "torch.manual_seed(0)\n"


@dataclass(frozen=True, slots=True)
class TemplateChanges:
    """Changes to a template.

    `replacements` maps texts of the template to new texts, before inputs and backend are filled in. `definitions`
    replaces functions and classes, by name. `inputs` are additional statements, `arguments` replace the function's
    parameters in calls. `draws`: the script draws random numbers besides its inputs.
    """

    replacements: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    arguments: tuple[str, ...] | None = None
    imports: tuple[str, ...] = ()
    draws: bool = False


def _is_random(graph: Graph) -> bool:
    """Whether an op draws random numbers. An op with an argument False is a dropout with training off."""
    return any(n.short_target in _RANDOM_OPS and False not in (*n.args, *n.kwargs.values()) for n in graph.ops)


def template_changes(
    case: Case, template: Template, variant: Variant, inputs: dict[str, str], names: Names
) -> TemplateChanges:
    """Return the changes for the Case. `inputs` maps placeholders to parameter names.

    Raises NoRepro if the template cannot hold the graph's results or gradients.
    """
    if template is Template.RUN_BACKWARD:
        return TemplateChanges(backward_pass(case, names), draws=True)
    if template is Template.CALL_COMPILER:
        return TemplateChanges(_compiler(case, variant))
    if template is Template.AUTOGRAD_FUNCTION:
        function = backward_function(case, inputs, names)
        replacements = {
            "y.backward(torch.randn_like(y))": f"{function.result}.backward({function.tangent})",
            "y =": f"{function.result} =",
        }
        return TemplateChanges(replacements, {"Function": (function.source,)}, function.stand_ins, function.arguments)
    return _comparison(case, template, variant, inputs)


def _compiler(case: Case, variant: Variant) -> dict[str, str]:
    replacements = {'"fw_compiler"': f'"{variant.compiler.value}"'}
    if case.failure.fingerprint.stage in (Stage.COMPILE, Stage.BACKWARD_COMPILE):
        return replacements | {"compiled = compiler": "compiler", "compiled([x])\n": ""}
    return replacements


def _comparison(case: Case, template: Template, variant: Variant, inputs: dict[str, str]) -> TemplateChanges:
    output = case.graph.output.args[0]
    several = isinstance(output, (tuple, list)) and len(output) > 1
    replacements: dict[str, str] = {}
    close = assert_close_arguments(case, variant.tolerance, variant.equal_nan)
    call = "assert_close(actual, expected"
    if close and template in (Template.COMPARE_RESULTS, Template.COMPARE_FRESH, Template.COMPARE_INPUTS):
        replacements[call] = f"{call}, {', '.join(close)}"
    if case.failure.fingerprint.message == Aspect.AUTOGRAD.value:
        replacements["torch.testing.assert_close(actual, expected)"] = _AUTOGRAD_OF_EACH if several else _AUTOGRAD
    is_random = _is_random(case.graph)
    if template is Template.COMPARE_GRADIENTS:
        texts = gradients(case, inputs)
        replacements |= {
            "tangent = torch.randn(2, 3)": texts.assignment,
            "fn(x), x, tangent": f"fn(x){texts.index}, {texts.inputs}, {texts.tangents}",
            '"eager")(x), x, tangent': f'"eager")(x){texts.index}, {texts.inputs}, {texts.tangents}',
        }
        if is_random:
            replacements |= {"expected = ": f"{_SEED}expected = ", "actual = ": f"{_SEED}actual = "}
        if close:
            replacements[call] = f"{call}, {', '.join(close)}"
        return TemplateChanges(replacements, draws=True)
    if template is Template.EXPECT_EXCEPTION:
        in_state = under_contexts(["f(x)"], contexts(case.state))
        replacements["        f(x)"] = textwrap.indent("\n".join(in_state), " " * 8)
    if template is Template.COMPARE_STORAGES and several:
        replacements |= {"(x, actual)": "(x, *actual)", "(x, expected)": "(x, *expected)"}
    if template is Template.KEEP_RESULT and several:
        addresses = "{y.data_ptr() for y in %s}"
        old = "first.data_ptr() != second.data_ptr()"
        replacements[old] = f"not {addresses % 'first'} & {addresses % 'second'}"
    if is_random and template in (Template.COMPARE_RESULTS, Template.ASK_PREDICATE):
        replacements |= {"expected = ": f"{_SEED}expected = ", "actual = ": f"{_SEED}actual = "}
    if is_random and template is Template.COMPARE_INPUTS:
        compiled = 'torch.compile(fn, backend="eager")(*actual)'
        replacements |= {"fn(*expected)": f"{_SEED}fn(*expected)", compiled: f"{_SEED}{compiled}"}
    if template is not Template.ASK_PREDICATE:
        return TemplateChanges(replacements, draws=is_random and template is Template.COMPARE_FRESH)
    predicate = predicate_source(case.measure.predicate)
    if several:
        replacements |= {"[actual]": "list(actual)", "[expected]": "list(expected)"}
    return TemplateChanges(replacements, {"differs": predicate.statements}, imports=predicate.imports)
