"""The forms of a repro (template and variant) that can show a Case's failure, and their tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from minifier.data.case import Case, Symbolic, TensorMeta
from minifier.data.case.graph import is_in_place, refs_in
from minifier.data.case.switches import of_script
from minifier.data.failure import Aspect, Difference, Stage
from minifier.data.failure.likeness import eager_is_not_finite
from minifier.repro.emit.files_beside import files_read


class Template(str, Enum):
    """The scripts in repro_templates/."""

    COMPILE_FUNCTION = "compile_function"
    CALL_BACKEND = "call_backend"
    RUN_BACKWARD = "run_backward"
    COMPARE = "compare"

    @property
    def hides_stage(self) -> bool:
        """Whether the script calls the backend directly, so that a traceback does not show the stage."""
        return self is Template.CALL_BACKEND


@dataclass(frozen=True, slots=True)
class Variant:
    """Optional additions to a script that does not show the failure without them.

    `fresh`: each call whose results are compared gets inputs of its own. `files`: the files that the backend reads in
    its current folder lie next to the script. `symbolic`: how sizes become symbolic.
    """

    fresh: bool = False
    equal_nan: bool = False
    environment: bool = False
    files: bool = False
    recompile: bool = True
    symbolic: Symbolic | None = None


Form = tuple[Template, Variant]

_BACKWARD_STAGES = (Stage.BACKWARD_COMPILE, Stage.BACKWARD_RUN)


def templates_for(case: Case) -> tuple[Template, ...]:
    """Return the templates that can show the Case's failure, the most readable for a maintainer first."""
    fingerprint = case.failure.fingerprint
    if fingerprint.stage is Stage.COMPARE:
        return (Template.COMPARE,)
    if case.backward and fingerprint.stage in _BACKWARD_STAGES:
        return (Template.RUN_BACKWARD,)
    if case.calls == 1 and case.failure.missing_exception is not None:
        return (Template.COMPARE,)  # the process ends where eager raises
    if case.before or _is_flaky_at_run_time(case):
        return (Template.COMPILE_FUNCTION,)
    return (Template.COMPILE_FUNCTION, Template.CALL_BACKEND)


def _is_flaky_at_run_time(case: Case) -> bool:
    return case.rate < 1 and case.failure.fingerprint.stage is Stage.RUN and case.calls == 1


def forms_for(case: Case) -> tuple[Form, ...]:
    """Return the forms worth trying: minimal variants first, variants with environment variables, then files, last.

    All set the environment variables if the script did: a reduction leaves those that the failure needs.
    """
    forms = tuple((template, variant) for template in templates_for(case) for variant in _variants(case, template))
    with_variables = tuple((template, replace(variant, environment=True)) for template, variant in forms)
    if of_script(case.state.environment):
        forms = with_variables
    elif case.state.environment:
        forms += with_variables
    if files_read(case.backend):
        forms += tuple((template, replace(variant, files=True)) for template, variant in forms)
    return forms


def _variants(case: Case, template: Template) -> Iterator[Variant]:
    first = Variant(symbolic=_origins(case)[0])
    variants = [first]
    if template is Template.COMPARE:
        variants = [replace(first, fresh=fresh, equal_nan=eager_is_not_finite(case.failure)) for fresh in _fresh(case)]
    elif template is Template.COMPILE_FUNCTION and _is_flaky_at_run_time(case):
        variants = [replace(first, recompile=False), first]
    for variant in variants:
        yield variant
        if case.symbolic is not None and template is not Template.CALL_BACKEND:
            yield from (replace(variant, symbolic=other) for other in _origins(case)[1:])


def _fresh(case: Case) -> list[bool]:
    """Return whether each compared call gets inputs of its own, the better way first."""
    if subject_of(case) is not Subject.RESULTS:
        return [False]
    fresh = case.calls > 1 or any(map(is_in_place, case.graph.ops))
    return [fresh] if case.calls > 1 else [fresh, not fresh]


def _origins(case: Case) -> list[Symbolic | None]:
    """Return the ways to make sizes symbolic, the Case's own first. Marks would have to be in the first call."""
    if case.symbolic is None:
        return [None]
    marked = [] if case.has_other_inputs else [Symbolic.MARKED]
    ways = [Symbolic.GIVEN, *marked, Symbolic.AUTOMATIC]
    return sorted(ways, key=lambda way: way is not case.symbolic)


class Subject(Enum):
    """What a script compares."""

    RESULTS = "results"
    INPUTS = "inputs after the call"
    GRADIENTS = "gradients"
    STORAGES = "storages of inputs and results"
    RESULTS_OF_CALLS = "storages of the results of two calls"
    EXCEPTIONS = "exceptions"
    PREDICATE = "results, by the user's own function"


_SUBJECTS = {
    Aspect.PREDICATE.value: Subject.PREDICATE,
    Aspect.NO_EXCEPTION.value: Subject.EXCEPTIONS,
    Aspect.ALIASING.value: Subject.STORAGES,
    Aspect.OVERWRITTEN.value: Subject.RESULTS_OF_CALLS,
    Aspect.MUTATION.value: Subject.INPUTS,
}


def subject_of(case: Case) -> Subject:
    """Return what a script compares that shows the Case's failure."""
    if case.failure.fingerprint.stage is not Stage.COMPARE:
        return Subject.EXCEPTIONS
    if case.measure.predicate:
        return Subject.PREDICATE
    aspect = case.failure.fingerprint.message
    if aspect in _SUBJECTS:
        return _SUBJECTS[aspect]
    difference = case.failure.main_difference
    where = difference.where if difference is not None else ""
    if where.startswith("input"):
        return Subject.INPUTS
    if where.startswith("gradient") or (aspect == Aspect.GRADIENT.value and not where.startswith("output")):
        return Subject.GRADIENTS
    return Subject.RESULTS


def makes_inputs(case: Case, form: Form) -> bool:
    """Whether the script has a function that makes the inputs of each compared call."""
    template, variant = form
    subject = subject_of(case)
    return template is Template.COMPARE and (
        subject is Subject.INPUTS or (variant.fresh and subject is Subject.RESULTS)
    )


# rtol and atol that assert_close takes by default, by dtype.
_DEFAULT_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
_TOLERANCES_OF_OTHER_DTYPES = (1.3e-6, 1e-5)
_CLEAR_ERROR_FACTOR = 2  # the defaults show an error that is larger than what they tolerate by this factor
_EAGER_ERROR_FACTOR = 4  # a correct result may be off by this multiple of eager's own error


def _correct_error(difference: Difference) -> float:
    """Return the largest error that a correct result may have."""
    errors = (difference.eager_error, difference.noise)
    return max((v for v in errors if v is not None and math.isfinite(v)), default=0.0) * _EAGER_ERROR_FACTOR


def _default_tolerance(case: Case, difference: Difference) -> float:
    """Return the error that the defaults tolerate in the largest of the elements that are furthest off, else in 1."""
    values = [case.graph.node(name).value for name in refs_in(case.graph.output.args)]
    dtypes = {value.dtype for value in values if isinstance(value, TensorMeta)} or {""}
    size = max((abs(float(pair.eager)) for pair in difference.elements if pair.ulps is not None), default=1.0)
    pairs = [_DEFAULT_TOLERANCES.get(dtype, _TOLERANCES_OF_OTHER_DTYPES) for dtype in dtypes]
    return max(rtol * size + atol for rtol, atol in pairs)


def wants_tolerance(case: Case) -> bool:
    """Whether the default tolerances cannot tell: the error is near or below them, or eager's own error is above."""
    difference = case.failure.main_difference
    if difference is None or difference.error is None or not math.isfinite(difference.error):
        return False
    default = _default_tolerance(case, difference)
    return difference.error <= default * _CLEAR_ERROR_FACTOR or _correct_error(difference) >= default


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


def assert_close_arguments(case: Case, equal_nan: bool) -> tuple[str, ...]:
    """Return keyword arguments for assert_close: the user's tolerances, else our own if the defaults cannot tell."""
    arguments = []
    measure = case.measure
    difference = case.failure.main_difference
    if measure.rtol is not None and measure.atol is not None:
        arguments += [f"rtol={measure.rtol!r}", f"atol={measure.atol!r}"]
        equal_nan = True  # the minifier's comparison with the user's tolerances treats NaNs as equal too
    elif difference is not None and wants_tolerance(case) and (text := tolerance(difference)) is not None:
        arguments += ["rtol=0", f"atol={text}"]
    if equal_nan:
        arguments.append("equal_nan=True")
    if case.failure.fingerprint.message == Aspect.STRIDE.value:
        arguments.append("check_stride=True")
    arguments += [
        f"check_{aspect.value}=False" for aspect in (Aspect.DEVICE, Aspect.DTYPE) if aspect in measure.ignored
    ]
    return tuple(arguments)
