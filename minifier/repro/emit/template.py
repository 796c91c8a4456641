"""Make the last statements of a script, and what else its form adds. repro_templates/ shows each form.

A form's helper functions and imports are those of its template. The statements are made here.
"""

from __future__ import annotations

import ast

from minifier.data.case import Case
from minifier.data.case.graph import Graph
from minifier.data.failure import Aspect
from minifier.data.templates import template_source
from minifier.repro.emit.call_source import CallSource
from minifier.repro.emit.forms import Form, Subject, Template, assert_close_arguments, makes_inputs, subject_of
from minifier.repro.emit.naming import Names
from minifier.repro.emit.return_source import backward_pass, gradients
from minifier.repro.emit.script_text import predicate_source, statements_of
from minifier.repro.emit.steps import FormSource, Step, other_step

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
