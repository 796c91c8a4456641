"""The forms of a repro (template and variant), and the forms that can show a Case's failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from importlib.resources import files

from minifier.case import Case, Level, Symbolic
from minifier.case.in_place import is_in_place
from minifier.case.variables import of_script
from minifier.emit.files_beside import files_read
from minifier.emit.tolerances import Subject, subject_of, wants_tolerance
from minifier.failure import Aspect, Failure, Kind, Stage
from minifier.failure.likeness import eager_is_not_finite


def template_source(name: str) -> str:
    """Return the text of a script of repro_templates/, which an installation holds as `minifier.repro_templates`."""
    return files("minifier.repro_templates").joinpath(f"{name}.py").read_text(encoding="utf-8")


class Template(str, Enum):
    """The scripts in repro_templates/."""

    COMPILE_FUNCTION = "compile_function"
    CALL_REPEATEDLY = "call_repeatedly"
    CALL_BACKEND = "call_backend"
    RUN_BACKWARD = "run_backward"
    COMPARE_RESULTS = "compare_results"
    COMPARE_FRESH = "compare_fresh"
    COMPARE_INPUTS = "compare_inputs"
    COMPARE_GRADIENTS = "compare_gradients"
    COMPARE_STORAGES = "compare_storages"
    KEEP_RESULT = "keep_result"
    EXPECT_EXCEPTION = "expect_exception"
    ASK_PREDICATE = "ask_predicate"
    CALL_COMPILER = "call_compiler"
    AUTOGRAD_FUNCTION = "autograd_function"

    @property
    def hides_stage(self) -> bool:
        """Whether the script calls the backend directly, so that a traceback does not show the stage."""
        return self in (Template.CALL_BACKEND, Template.CALL_COMPILER)


@dataclass(frozen=True, slots=True)
class Variant:
    """Optional additions to a script that does not show the failure without them.

    `files`: the files that the backend reads in its current folder lie next to the script. `symbolic`: how sizes become
    symbolic. `compiler`: the argument of aot_autograd(...) that holds the compiler.
    """

    tolerance: bool = False
    equal_nan: bool = False
    environment: bool = False
    files: bool = False
    logging: bool = False
    recompile: bool = True
    symbolic: Symbolic | None = None
    compiler: str = "bw_compiler"


Form = tuple[Template, Variant]

_BACKWARD_STAGES = (Stage.BACKWARD_COMPILE, Stage.BACKWARD_RUN)


def templates_for(case: Case) -> tuple[Template, ...]:
    """Return the templates that can show the Case's failure, the most readable for a maintainer first."""
    fingerprint = case.failure.fingerprint
    if fingerprint.stage is Stage.COMPARE:
        return _comparison_templates(case)
    if case.level is Level.AOT_BACKWARD:
        return (Template.CALL_COMPILER, Template.AUTOGRAD_FUNCTION)
    if case.backward and fingerprint.stage in _BACKWARD_STAGES:
        return (Template.RUN_BACKWARD,)
    if case.level is Level.AOT_FORWARD:
        return (Template.COMPILE_FUNCTION, Template.CALL_COMPILER)
    if case.calls > case.calls_in_a_row:
        return (Template.COMPILE_FUNCTION,)  # its last call is apart from the others
    if case.calls > 1:
        return (Template.CALL_REPEATEDLY,)
    if case.failure.missing_exception is not None:
        return (Template.EXPECT_EXCEPTION,)  # the process ends where eager raises
    if case.rate < 1 and fingerprint.stage is Stage.RUN:
        return (Template.CALL_REPEATEDLY, Template.COMPILE_FUNCTION)
    if case.before:
        return (Template.COMPILE_FUNCTION,)
    return (Template.COMPILE_FUNCTION, Template.CALL_BACKEND)


def _comparison_templates(case: Case) -> tuple[Template, ...]:
    if case.measure.predicate or case.failure.fingerprint.message == Aspect.PREDICATE.value:
        return (Template.ASK_PREDICATE,)
    special = {
        Aspect.NO_EXCEPTION.value: Template.EXPECT_EXCEPTION,
        Aspect.ALIASING.value: Template.COMPARE_STORAGES,
        Aspect.OVERWRITTEN.value: Template.KEEP_RESULT,
    }.get(case.failure.fingerprint.message)
    if special is not None:
        return (special,)
    if subject_of(case) is Subject.INPUTS:
        return (Template.COMPARE_INPUTS,)
    if subject_of(case) is Subject.GRADIENTS:
        return (Template.COMPARE_GRADIENTS,)
    if case.calls > 1:
        return (Template.COMPARE_FRESH,)
    if any(map(is_in_place, case.graph.ops)):
        return (Template.COMPARE_FRESH, Template.COMPARE_RESULTS)
    return (Template.COMPARE_RESULTS, Template.COMPARE_FRESH)


def forms_for(case: Case) -> tuple[Form, ...]:
    """Return the forms worth trying: minimal variants first, variants with environment variables, then files, last.

    All set the environment variables if the script did: a reduction leaves those that the failure needs.
    """
    first = Variant(symbolic=_origins(case)[0])
    if case.failure.fingerprint.stage is Stage.COMPARE:
        first = replace(first, tolerance=wants_tolerance(case), equal_nan=eager_is_not_finite(case.failure))
    pairs = [(template, variant) for template in templates_for(case) for variant in _variants(case, template, first)]
    forms = tuple(dict.fromkeys(pairs))
    with_variables = tuple((template, replace(variant, environment=True)) for template, variant in forms)
    if of_script(case.state.environment):
        forms = with_variables
    elif case.state.environment:
        forms += with_variables
    if files_read(case.backend):
        forms += tuple((template, replace(variant, files=True)) for template, variant in forms)
    return forms


def _variants(case: Case, template: Template, first: Variant) -> Iterator[Variant]:
    if template is Template.CALL_REPEATEDLY and case.calls == 1:  # flaky at run time: repeat the call only
        first = replace(first, recompile=False)
    if template is Template.CALL_COMPILER:
        keys = ("bw_compiler", "fw_compiler") if case.level is Level.AOT_BACKWARD else ("fw_compiler",)
        yield from (replace(first, compiler=key) for key in keys)
        return
    is_line = case.failure.fingerprint.kind is Kind.SILENT_FALLBACK
    if not (is_line and case.failure.message.startswith("DEBUG ")):  # its logger keeps that back by itself
        yield first
    if is_line:
        yield replace(first, logging=True)
    if case.failure.fingerprint.stage is Stage.COMPARE and template not in (
        Template.ASK_PREDICATE,
        Template.EXPECT_EXCEPTION,
        Template.COMPARE_STORAGES,
        Template.KEEP_RESULT,
    ):
        yield from _other_tolerances(first)
    if case.symbolic is not None and template is not Template.CALL_BACKEND:
        yield from (replace(first, symbolic=other) for other in _origins(case)[1:])


def _origins(case: Case) -> list[Symbolic | None]:
    """Return the ways to make sizes symbolic, the Case's own first. Marks would have to be in the first call."""
    if case.symbolic is None:
        return [None]
    marked = [] if case.has_other_inputs else [Symbolic.MARKED]
    ways = [Symbolic.GIVEN, *marked, Symbolic.AUTOMATIC]
    return sorted(ways, key=lambda way: way is not case.symbolic)


def _other_tolerances(first: Variant) -> Iterator[Variant]:
    for equal_nan in (first.equal_nan, not first.equal_nan):
        for tolerance in (first.tolerance, not first.tolerance):
            if (tolerance, equal_nan) != (first.tolerance, first.equal_nan):
                yield replace(first, tolerance=tolerance, equal_nan=equal_nan)


def is_worth_trying(variant: Variant, earlier: Variant, shown: Failure | None, of_eager: bool) -> bool:
    """Tell whether this variant of a comparison can do better than an earlier variant of the same template.

    `shown` is the failure that the earlier script showed, None for no difference. `of_eager`: the backend eager showed
    the failure.
    """
    if replace(variant, tolerance=False, equal_nan=False) != replace(earlier, tolerance=False, equal_nan=False):
        return True
    if shown is None:
        return variant.tolerance != earlier.tolerance
    if shown.fingerprint.kind is Kind.NON_FINITE:
        return variant.equal_nan and not earlier.equal_nan
    return not of_eager
