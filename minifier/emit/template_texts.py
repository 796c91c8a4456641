"""Adapt a template's text to a Case: seeds, tolerances, gradients, the compiler, the user's comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minifier.case import Case, Graph
from minifier.emit.forms import Template, Variant
from minifier.emit.naming import Names
from minifier.emit.predicate_source import predicate_source
from minifier.emit.return_source import backward_function, backward_pass, gradients
from minifier.emit.tolerances import assert_close_arguments
from minifier.failure import Aspect, Stage

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
