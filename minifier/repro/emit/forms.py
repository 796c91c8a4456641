"""The forms of a repro (template and variant) that can show a Case's failure, and their tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from minifier.data.case import Case, Level, Symbolic, TensorMeta
from minifier.data.case.graph import is_in_place, refs_in
from minifier.data.case.switches import of_script
from minifier.data.failure import Aspect, Difference, Failure, Kind, Stage
from minifier.data.failure.likeness import eager_is_not_finite
from minifier.repro.emit.files_beside import files_read


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


class CompilerArgument(Enum):
    """The argument of aot_autograd(...) that is called with a graph."""

    FORWARD = "fw_compiler"
    BACKWARD = "bw_compiler"


@dataclass(frozen=True, slots=True)
class Variant:
    """Optional additions to a script that does not show the failure without them.

    `files`: the files that the backend reads in its current folder lie next to the script. `symbolic`: how sizes become
    symbolic. `compiler`: where aot_autograd(...) holds the compiler.
    """

    tolerance: bool = False
    equal_nan: bool = False
    environment: bool = False
    files: bool = False
    logging: bool = False
    recompile: bool = True
    symbolic: Symbolic | None = None
    compiler: CompilerArgument = CompilerArgument.BACKWARD


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
        if case.level is Level.AOT_BACKWARD:
            yield replace(first, compiler=CompilerArgument.BACKWARD)
        yield replace(first, compiler=CompilerArgument.FORWARD)
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


# assert_close's default rtol + atol: the error it tolerates for values near one.
_DEFAULT_TOLERANCES = {"float16": 1e-3, "bfloat16": 1.6e-2, "float64": 2e-7, "complex128": 2e-7}
_TOLERANCE_OF_OTHER_DTYPES = 1.1e-5
_EAGER_ERROR_FACTOR = 4  # a correct result may be off by this multiple of eager's own error


class Subject(Enum):
    """The values that a script compares."""

    OUTPUTS = "outputs"
    INPUTS = "inputs"
    GRADIENTS = "gradients"


def subject_of(case: Case) -> Subject:
    """Return whether the difference is in outputs, inputs after the call, or gradients."""
    difference = case.failure.main_difference
    where = difference.where if difference is not None else ""
    aspect = case.failure.fingerprint.message
    if aspect == Aspect.MUTATION.value or where.startswith("input"):
        return Subject.INPUTS
    if where.startswith("gradient") or (aspect == Aspect.GRADIENT.value and not where.startswith("output")):
        return Subject.GRADIENTS
    return Subject.OUTPUTS


def _correct_error(difference: Difference) -> float:
    """Return the largest error that a correct result may have."""
    errors = (difference.eager_error, difference.noise)
    return max((v for v in errors if v is not None and math.isfinite(v)), default=0.0) * _EAGER_ERROR_FACTOR


def _default_tolerance(case: Case) -> float:
    values = [case.graph.node(name).value for name in refs_in(case.graph.output.args)]
    dtypes = [value.dtype for value in values if isinstance(value, TensorMeta)]
    tolerances = [_DEFAULT_TOLERANCES.get(dtype, _TOLERANCE_OF_OTHER_DTYPES) for dtype in dtypes]
    return max(tolerances, default=_TOLERANCE_OF_OTHER_DTYPES)


def wants_tolerance(case: Case) -> bool:
    """Whether the default tolerances cannot tell: the error is below them, or eager's own error is above."""
    difference = case.failure.main_difference
    if difference is None or difference.error is None or not math.isfinite(difference.error):
        return False
    return difference.error <= _default_tolerance(case) or _correct_error(difference) >= _default_tolerance(case)


def tolerance(difference: Difference) -> str | None:
    """Return an absolute tolerance between the error of a correct result and the observed error.

    The tolerance is a power of ten if possible, else a number of few digits. None if the error is unknown, or if a
    correct result may be as far off.
    """
    error = difference.error
    if error is None or not math.isfinite(error) or error <= 0:
        return None
    floor = _correct_error(difference)
    if floor >= error:
        floor /= _EAGER_ERROR_FACTOR
    if floor >= error:
        return None
    middle = math.sqrt(floor * error) if floor else error / 3
    power = round(math.log10(middle)) if floor else math.floor(math.log10(middle))
    if floor < 10.0**power < error:
        return f"1e{power}"
    text = f"{middle:.0e}"
    return text.replace("e-0", "e-").replace("e+0", "e") if floor < float(text) < error else f"{middle:.2e}"


def assert_close_arguments(case: Case, explicit: bool, equal_nan: bool) -> tuple[str, ...]:
    """Return keyword arguments for assert_close: the user's tolerances, else our own if `explicit`."""
    arguments = []
    measure = case.measure
    difference = case.failure.main_difference
    if measure.rtol is not None and measure.atol is not None:
        arguments += [f"rtol={measure.rtol!r}", f"atol={measure.atol!r}"]
        equal_nan = True  # the minifier's comparison with the user's tolerances treats NaNs as equal too
    elif explicit and difference is not None and (text := tolerance(difference)) is not None:
        arguments += ["rtol=0", f"atol={text}"]
    if equal_nan:
        arguments.append("equal_nan=True")
    if case.failure.fingerprint.message == Aspect.STRIDE.value:
        arguments.append("check_stride=True")
    arguments += [
        f"check_{aspect.value}=False" for aspect in (Aspect.DEVICE, Aspect.DTYPE) if aspect in measure.ignored
    ]
    return tuple(arguments)
