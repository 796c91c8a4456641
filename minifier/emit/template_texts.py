"""What each template needs beside a function, its inputs and a backend: texts for its last statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minifier.case import Case, Graph
from minifier.emit.forms import Template, Variant
from minifier.emit.naming import Names
from minifier.emit.predicate_source import predicate_source
from minifier.emit.return_source import backward_function, backward_pass, gradients
from minifier.emit.tolerances import closeness
from minifier.failure import Aspect, Stage

_RANDOM = {
    "alpha_dropout", "bernoulli", "bernoulli_", "cauchy_", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "exponential_", "feature_alpha_dropout", "feature_dropout", "geometric_", "gumbel_softmax", "log_normal_",
    "multinomial", "native_dropout", "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "random_", "randperm", "rrelu", "rrelu_", "uniform_",
}  # fmt: skip
# Of an output that has no gradient where eager's has one, there is no gradient to compare.
_REQUIRES_GRAD = 'assert actual.requires_grad == expected.requires_grad, "requires_grad is not as in eager"'
_REQUIRES_GRAD_OF_EACH = """\
for a, e in zip(actual, expected):
    assert a.requires_grad == e.requires_grad, "requires_grad is not as in eager\""""
_SEED = "torch.manual_seed(0)\n"


@dataclass(frozen=True, slots=True)
class Special:
    """`replacements` maps texts of the template to others, in the template's own terms; `definitions` has, by
    name, what takes the place of its functions and classes. `inputs` are more statements that make inputs,
    `arguments` what is called with instead of the function's parameters, `imports` and `taken` (names) what all
    that brings with it. `draws`: it draws random numbers of its own."""

    replacements: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    arguments: tuple[str, ...] | None = None
    imports: tuple[str, ...] = ()
    draws: bool = False


def is_random(graph: Graph) -> bool:
    """Whether an op of the graph draws random numbers; a dropout that is told not to train does not."""
    return any(node.short_target in _RANDOM and False not in (*node.args, *node.kwargs.values()) for node in graph.ops)


def special(case: Case, template: Template, variant: Variant, inputs: dict[str, str], names: Names) -> Special:
    """For the Case and template; `inputs` names the function's parameters. Raises NoRepro."""
    if template is Template.RUN_BACKWARD:
        return Special(backward_pass(case, names), draws=True)
    if template is Template.CALL_COMPILER:
        return Special(_compiler(case, variant))
    if template is Template.AUTOGRAD_FUNCTION:
        made = backward_function(case, inputs, names)
        replaced = {
            "y.backward(torch.randn_like(y))": f"{made.result}.backward({made.tangent})",
            "y =": f"{made.result} =",
        }
        return Special(replaced, {"Function": (made.source,)}, made.made, made.arguments)
    return _comparing(case, template, variant, inputs)


def _compiler(case: Case, variant: Variant) -> dict[str, str]:
    replaced = {'"fw_compiler"': f'"{variant.compiler}"'}
    if case.failure.fingerprint.stage in (Stage.COMPILE, Stage.BACKWARD_COMPILE):
        return replaced | {"compiled = compiler": "compiler", "compiled([x])\n": ""}
    return replaced


def _comparing(case: Case, template: Template, variant: Variant, inputs: dict[str, str]) -> Special:
    result = case.graph.output.args[0]
    several = isinstance(result, (tuple, list)) and len(result) > 1
    replaced: dict[str, str] = {}
    close = closeness(case, variant.tolerance, variant.equal_nan)
    call = "assert_close(actual, expected"
    if close and template in (Template.COMPARE_RESULTS, Template.COMPARE_FRESH, Template.COMPARE_INPUTS):
        replaced[call] = f"{call}, {', '.join(close)}"
    if case.failure.fingerprint.message == Aspect.GRADIENT.value and template is Template.COMPARE_RESULTS:
        replaced["torch.testing.assert_close(actual, expected)"] = _REQUIRES_GRAD_OF_EACH if several else _REQUIRES_GRAD
    seeds = is_random(case.graph)
    if template is Template.COMPARE_GRADIENTS:
        wanted = gradients(case, inputs)
        replaced |= {
            "tangent = torch.randn(2, 3)": wanted.made,
            "fn(x), x, tangent": f"fn(x){wanted.picked}, {wanted.of}, {wanted.tangents}",
            '"eager")(x), x, tangent': f'"eager")(x){wanted.picked}, {wanted.of}, {wanted.tangents}',
        }
        if seeds:
            replaced |= {"expected = ": f"{_SEED}expected = ", "actual = ": f"{_SEED}actual = "}
        if close:
            replaced[call] = f"{call}, {', '.join(close)}"
        return Special(replaced, draws=True)
    if template is Template.COMPARE_STORAGES and several:
        replaced |= {"(x, actual)": "(x, *actual)", "(x, expected)": "(x, *expected)"}
    if seeds and template in (Template.COMPARE_RESULTS, Template.ASK_PREDICATE):
        replaced |= {"expected = ": f"{_SEED}expected = ", "actual = ": f"{_SEED}actual = "}
    if seeds and template is Template.COMPARE_INPUTS:
        compiled = 'torch.compile(fn, backend="eager")(*actual)'
        replaced |= {"fn(*expected)": f"{_SEED}fn(*expected)", compiled: f"{_SEED}{compiled}"}
    if template is not Template.ASK_PREDICATE:
        return Special(replaced, draws=seeds and template is Template.COMPARE_FRESH)
    predicate = predicate_source(case.measure.predicate)
    if several:
        replaced |= {"[actual]": "list(actual)", "[expected]": "list(expected)"}
    return Special(replaced, {"differs": predicate.statements}, imports=predicate.imports)
