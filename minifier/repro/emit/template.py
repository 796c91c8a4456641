"""Fill a template, which is a runnable script, with libcst; adapt its texts; wrap its last statements."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from minifier.data.case import Case, Graph
from minifier.data.case.literals import literal
from minifier.data.failure import Aspect, Stage
from minifier.data.templates import template_source
from minifier.repro.emit.definitions import (
    Definitions,
    Statement,
    apart,
    code_of,
    keep_script_names,
    names_as_arguments,
    parsed,
    predicate_source,
    set_apart,
    transformed,
    under,
    under_contexts,
)
from minifier.repro.emit.forms import Template, Variant, assert_close_arguments
from minifier.repro.emit.naming import Names
from minifier.repro.emit.return_source import backward_function, backward_pass, gradients

THE_END = "It was not ended."  # last output of a script whose failure would end it early with status 0
_COMPILE = m.Call(func=m.Attribute(value=m.Name("torch"), attr=m.Name("compile")))
# Compiles, or calls compiled code. Earlier statements need no repetition and cannot hang.
_COMPILE_OR_RUN = m.OneOf(_COMPILE, m.Call(func=m.OneOf(m.Name("compiled"), m.Name("lookup_backend"))))
# Calls the function, compiled or not: these statements need the state of the Case.
_CALL_OF_FUNCTION = m.Call(func=m.OneOf(m.Call(), m.Name("compiled"), m.Name("compiler"), m.Name("fn")))


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


class _Hoist(cst.CSTTransformer):
    """Replaces `torch.compile(...)` in an expression by `compiled`, and keeps the call."""

    def __init__(self) -> None:
        super().__init__()
        self.call: cst.Call | None = None

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if m.matches(updated_node, _COMPILE):
            self.call = updated_node
            return cst.Name("compiled")
        return updated_node


def _hoisted(statements: list[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Return (`compiled = torch.compile(...)`, other statements). The first list is empty without torch.compile."""
    hoist = _Hoist()
    rest: list[Statement] = []
    for statement in statements:
        if code_of(statement).startswith("compiled = torch.compile("):
            return [statement], [s for s in statements if s is not statement]
        rest.append(transformed(statement, hoist))
    if hoist.call is None:
        return [], statements
    return parsed([f"compiled = {code_of(hoist.call)}"]), rest


def _in_state(statements: list[Statement], contexts: Sequence[str]) -> list[Statement]:
    """Put the statements from the first to the last call of the function under the contexts."""
    calls = [i for i, s in enumerate(statements) if m.findall(s, _CALL_OF_FUNCTION)]
    if not contexts or not calls:
        return statements
    first, end = calls[0], calls[-1] + 1
    return [*statements[:first], under_contexts(statements[first:end], contexts), *statements[end:]]


def _merged(statements: list[Statement]) -> list[Statement]:
    """Put the bodies of successive `with` statements of the same contexts into one."""
    merged: list[Statement] = []
    for statement in statements:
        before = merged[-1] if merged else None
        if (
            isinstance(statement, cst.With)
            and isinstance(before, cst.With)
            and _contexts(before) == _contexts(statement)
        ):
            body = before.body.with_changes(body=[*before.body.body, *statement.body.body])
            merged[-1] = before.with_changes(body=body)
        else:
            merged.append(statement)
    return merged


def _contexts(statement: cst.With) -> list[str]:
    return [code_of(item) for item in statement.items]


def _repeated(times: int, body: list[Statement]) -> list[Statement]:
    return [under(f"for _ in range({times}):", body)] if times > 1 else body


def wrap(
    statements: list[Statement], contexts: Sequence[str], wrapping: Wrapping
) -> tuple[list[Statement], tuple[str, ...]]:
    """Return (wrapped statements, imports that they need)."""
    has_loop = any(isinstance(s, cst.For) for s in statements)  # in the template
    head: list[Statement] = []
    repeats = (wrapping.calls > 1 and not has_loop) or (wrapping.attempts > 1 and not wrapping.recompile)
    if repeats or any(isinstance(each, int) or "compiled(" in each for each in wrapping.before):
        head, statements = _hoisted(statements)
    elif has_loop:
        head, statements = statements[:1], statements[1:]
    statements = _in_state(statements, contexts)
    start = next((i for i, s in enumerate(statements) if m.findall(s, _COMPILE_OR_RUN)), 0)
    before, body = statements[:start], statements[start:]
    imports: tuple[str, ...] = ()
    earlier: list[Statement] = []
    for each in wrapping.before:
        earlier += _repeated(each, body) if isinstance(each, int) else _in_state(parsed([each]), contexts)
    body = _merged([*earlier, *(body if has_loop else _repeated(wrapping.calls, body))])
    if seconds := wrapping.timeout_seconds:
        imports = (*imports, "import faulthandler")
        guard = f"faulthandler.dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s"
        body = [*parsed([guard]), *body]
    if gib := wrapping.memory_gib:
        imports = (*imports, "import resource")
        guard = f"resource.setrlimit(resource.RLIMIT_DATA, ({gib} << 30, {gib} << 30))"
        before = [*before, *parsed([f"{guard}  # it takes all memory: this ends it at {gib} GiB"])]
    if wrapping.attempts > 1 and wrapping.recompile:
        body, head = [*parsed(["torch.compiler.reset()"]), *head, *body], []
    if wrapping.attempts > 1:
        body = [under(f"for attempt in range({wrapping.attempts}):", body)]
    end = ["torch.accelerator.synchronize()"] if wrapping.waits else []
    end += [f"print({literal(THE_END)})"] if wrapping.prints_end else []
    return [*before, *head, *body, *parsed(end)], imports


_FUNCTIONS_OF_INPUTS = ("fn", "f", "compiled", "compiler", "sharing")
# Comments that mark a statement of a template.
_NUMBER_OF_CALLS, _CONTEXTS = "# fill in: the number of calls", "# fill in: the contexts"
_TEMPLATE_BACKENDS = ('"eager"', '"aot_eager_default_partitioner"')


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


def _keyword(text: str) -> cst.Arg:
    key, _, value = text.partition("=")
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), cst.Name(key), equal=equal)


class _Fill(cst.CSTTransformer):
    """Replaces the template's backend, backend arguments and inputs, and the statements marked by comments."""

    def __init__(self, filling: Filling) -> None:
        super().__init__()
        self.filling = filling

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        if original_node.value in _TEMPLATE_BACKENDS:
            return cst.parse_expression(self.filling.backend)
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        args: list[cst.Arg] = []
        for arg in updated_node.args:
            text = code_of(arg.value) if _takes_inputs(original_node) else ""
            if text == "x" and arg.star == "":
                args += names_as_arguments(self.filling.arguments)
            elif text == "[x]":
                inputs = f"[{', '.join(self.filling.arguments)}]"
                args.append(arg.with_changes(value=cst.parse_expression(inputs)))
            else:
                args.append(arg)
        names_backend = any(arg.keyword is not None and arg.keyword.value == "backend" for arg in args)
        calls_backend = code_of(original_node.func) == 'lookup_backend("eager")'
        if names_backend or calls_backend:
            args += map(_keyword, self.filling.backend_arguments)
        args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args]
        return updated_node.with_changes(args=args)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        block = updated_node.body
        if not isinstance(block, cst.IndentedBlock) or not _is_marked(block.header, _NUMBER_OF_CALLS):
            return updated_node
        block = block.with_changes(header=cst.TrailingWhitespace())
        calls = cst.parse_expression(f"range({self.filling.wrapping.calls})")
        return updated_node.with_changes(iter=calls, body=block)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Statement:
        if not _is_marked(original_node.trailing_whitespace, _CONTEXTS):
            return updated_node
        statement = updated_node.with_changes(trailing_whitespace=cst.TrailingWhitespace())
        return under_contexts([statement], self.filling.contexts)


def _is_marked(end_of_line: cst.TrailingWhitespace, mark: str) -> bool:
    return end_of_line.comment is not None and end_of_line.comment.value == mark


def _takes_inputs(call: cst.Call) -> bool:
    """Tell whether the function is called, compiled or not. In other calls, `x` means a single tensor."""
    return isinstance(call.func, cst.Call) or code_of(call.func) in _FUNCTIONS_OF_INPUTS


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )


def _functions(filling: Filling) -> list[Statement]:
    """Return the functions that `fn` calls, then `fn`."""
    body = "\n".join(f"    {line}" for line in filling.body)
    return parsed([*filling.before, f"def fn({', '.join(filling.parameters)}):\n{body}"])


def _inputs_function(filling: Filling) -> Statement:
    """Return a function that creates new inputs in each call. A single input is returned without an assignment."""
    lines, names = list(filling.inputs), ", ".join(filling.arguments)
    assignment = f"{filling.arguments[0]} = " if len(filling.arguments) == 1 else "\n"
    if lines and lines[-1].startswith(assignment):
        lines[-1] = f"return [{lines[-1].removeprefix(assignment)}]"
    else:
        lines.append(f"return [{names}]")
    body = textwrap.indent("\n".join(lines), "    ")
    return cst.parse_statement(f"def inputs():\n{body}")


def _is_input(statement: cst.CSTNode) -> bool:
    if not (isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign)):
        return False
    target = statement.body[0].targets[0].target
    return isinstance(target, cst.Name) and target.value == "x"


def _template(name: str, replacements: Mapping[str, str]) -> cst.Module:
    text = template_source(name)
    for old, new in replacements.items():
        assert old in text, f"the template {name} has no {old!r}"
        text = text.replace(old, new)
    return cst.parse_module(text)


def fill(name: str, filling: Filling) -> str:
    """Return the script: imports, settings, functions, inputs, and the last statements of the template `name`."""
    template = _template(name, filling.replacements)
    fill_in = _Fill(filling)
    definitions: list[Statement] = []
    inputs: list[Statement] = []
    action: list[Statement] = []
    for statement in template.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            defined = statement.name.value
            if defined == "fn":
                definitions += _functions(filling)
            elif defined == "inputs":
                definitions.append(_inputs_function(filling))
            elif defined in filling.definitions:
                definitions += parsed(filling.definitions[defined])
            else:
                definitions.append(transformed(statement, fill_in))
        elif _is_input(statement):
            inputs += parsed(filling.inputs)
        elif not _is_import(statement):
            action.append(transformed(statement, fill_in))
    imports = {code_of(statement) for statement in template.body if _is_import(statement)}
    action, wrapping_imports = wrap(action, filling.contexts, filling.wrapping)
    body = _head(filling, imports.union(filling.imports, wrapping_imports, filling.script_definitions.imports))
    body += set_apart(filling.script_definitions.statements)
    set_by_script = [keep_script_names(each, filling.script_names) for each in parsed(filling.settings_of_script)]
    body += [apart(each, 0 if number else 2) for number, each in enumerate(set_by_script)]
    body += [apart(keep_script_names(statement, filling.script_names), 2) for statement in definitions]
    action = [keep_script_names(statement, filling.script_names) for statement in (*inputs, *action)]
    action[0] = apart(action[0], 2)
    code = template.with_changes(body=[*body, *action], header=[]).code
    return code.rstrip() + "\n\n" + "\n".join(f"# {line}".rstrip() for line in filling.footer) + "\n"


def _head(filling: Filling, imports: set[str]) -> list[Statement]:
    """Return imports and settings. Environment variables are set before torch is imported."""
    head: list[Statement] = parsed(filling.script_definitions.future)
    if filling.environment:
        stdlib = {line for line in imports if line.split()[1].partition(".")[0] in sys.stdlib_module_names}
        stdlib.add("import os")
        environment = parsed(filling.environment)
        head += [*parsed(_sorted_imports(stdlib)), apart(environment[0], 1), *environment[1:]]
        imports = imports - stdlib
    rest = parsed([*filling.first_imports, *_sorted_imports(imports.difference(filling.first_imports))])
    head += [*(apart(s, 1 if head else 0) for s in rest[:1]), *rest[1:]]
    settings = parsed(filling.settings)
    return [*head, *(apart(s, 1) for s in settings[:1]), *settings[1:]]


def _sorted_imports(lines: Collection[str]) -> list[str]:
    """Sort import lines, and merge `from` imports of the same module."""
    names: dict[str, dict[str, None]] = {}
    for line in sorted(lines, key=_import_order):
        module, _, imported = line.partition(" import ")
        names.setdefault(module, {}).update(dict.fromkeys(imported.split(", ") if imported else []))
    return [f"{module} import {', '.join(imported)}" if imported else module for module, imported in names.items()]


def _import_order(line: str) -> tuple[bool, bool, str, str]:
    """Return the sort key: standard library first, `import` before `from`, torch before other packages."""
    top = line.split()[1].partition(".")[0]
    return top not in sys.stdlib_module_names, line.startswith("from"), line if top != "torch" else "", line


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
    replacements = {'"fw_compiler"': f'"{variant.compiler}"'}
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
