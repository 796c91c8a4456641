"""The differences of a comparison as one failure, and what a person reads of it."""

import pytest

from minifier.data.failure import Aspect, Difference, Failure, Fingerprint, Frame, Kind, Stage
from minifier.data.failure.evidence import failure_of_differences

# From what a user minds most to what a user minds least.
ASPECTS = (
    Aspect.PREDICATE, Aspect.NO_EXCEPTION, Aspect.NON_FINITE, Aspect.VALUES, Aspect.GRADIENT, Aspect.AUTOGRAD,
    Aspect.MUTATION, Aspect.OVERWRITTEN, Aspect.SHAPE, Aspect.STRUCTURE, Aspect.DTYPE, Aspect.DEVICE,
    Aspect.ALIASING, Aspect.STRIDE,
)  # fmt: skip


def off(aspect, where="output 0"):
    return Difference(aspect, where, f"{where}: {aspect.value}")


def wrong(message, *aspects):
    return Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message=message, aspects=aspects)


def test_every_aspect_has_its_rank():
    assert set(ASPECTS) == set(Aspect)
    forward = [each for each in ASPECTS if each is not Aspect.GRADIENT]
    results = [off(aspect, f"output {number}") for number, aspect in enumerate(reversed(forward))]
    failure = failure_of_differences(results)
    assert failure.fingerprint.message == forward[0].value
    assert failure_of_differences(failure.differences[1:]).fingerprint.message == forward[1].value


def test_forward_results_come_before_gradients():
    slight, gradient = off(Aspect.STRIDE), off(Aspect.VALUES, "gradient of x")
    failure = failure_of_differences([gradient, slight])
    assert failure.differences == (slight, gradient)
    assert failure.fingerprint == wrong("stride", "stride", "values")
    assert (failure.type, failure.message) == ("wrong-result", slight.sentence)
    assert failure.traceback == f"{slight.sentence}\n{gradient.sentence}\n"


@pytest.mark.parametrize(
    ("aspects", "shown"),
    [
        ((Aspect.VALUES, Aspect.DTYPE), Aspect.DTYPE),
        ((Aspect.SHAPE, Aspect.DTYPE), Aspect.SHAPE),
        ((Aspect.NON_FINITE, Aspect.DTYPE), Aspect.DTYPE),
        ((Aspect.VALUES, Aspect.AUTOGRAD), Aspect.VALUES),
        ((Aspect.VALUES, Aspect.STRIDE), Aspect.VALUES),
    ],
)
def test_a_result_wrong_in_several_aspects_is_known_by_the_worst(aspects, shown):
    """What an assertion names first may be another aspect; it stands first among the differences."""
    first = failure_of_differences([off(aspect) for aspect in reversed(aspects)])
    assert first.fingerprint.message == aspects[0].value and set(first.fingerprint.aspects) == set(aspects)
    assert first.message == "; ".join(off(each).sentence for each in dict.fromkeys((aspects[0], shown)))
    assert first.differences[0].aspect is shown


def test_the_worst_result_comes_first_with_all_its_aspects():
    differences = [off(Aspect.STRIDE), off(Aspect.VALUES, "output 11"), off(Aspect.DTYPE, "output 11")]
    failure = failure_of_differences([*differences, off(Aspect.SHAPE, "output 2")])
    assert failure.fingerprint == wrong("values", "dtype", "values", "shape", "stride")
    assert [each.where for each in failure.differences] == ["output 11", "output 11", "output 2", "output 0"]


def test_the_sought_aspect_is_sought_whatever_its_rank():
    differences = [off(Aspect.VALUES), off(Aspect.STRIDE), off(Aspect.SHAPE), off(Aspect.VALUES, "output 1")]
    seen = failure_of_differences(differences, wrong("stride"))
    assert seen.fingerprint.message == "stride"
    assert seen.message == f"{off(Aspect.STRIDE).sentence}; {off(Aspect.SHAPE).sentence}"
    assert [each.aspect.value for each in seen.differences] == ["shape", "stride", "values", "values"]
    assert failure_of_differences(differences, wrong("dtype")).fingerprint.message == "values"


def test_nan_and_infinity_are_a_kind_of_their_own():
    failure = failure_of_differences([off(Aspect.NON_FINITE)])
    fingerprint = Fingerprint(Stage.COMPARE, Kind.NON_FINITE, message="non-finite", aspects=("non-finite",))
    assert failure.fingerprint == fingerprint
    assert failure.type == "non-finite"


@pytest.mark.parametrize(
    ("difference", "is_of_backward"),
    [
        (off(Aspect.GRADIENT), True),
        (off(Aspect.DTYPE, "gradient of x"), True),
        (off(Aspect.NO_EXCEPTION, "the backward pass"), True),
        (off(Aspect.VALUES, "input x after the call"), False),
    ],
)
def test_what_takes_a_backward_pass_to_be_seen(difference, is_of_backward):
    assert difference.is_of_backward is is_of_backward


@pytest.mark.parametrize(
    ("fingerprint", "sentence", "with_message"),
    [
        (Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGSEGV"), "signal (run): SIGSEGV", "signal (run): SIGSEGV"),
        (Fingerprint(Stage.RUN, Kind.TIMEOUT), "timeout (run): ", "timeout (run): "),
        (
            Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("KeyError",), message="<shape>\ntwo"),
            "KeyError (compile): <shape>",
            "KeyError (compile): (3, 4)",
        ),
        (
            Fingerprint(
                Stage.COMPILE, Kind.EXCEPTION, ("RuntimeError", "KeyError"), None, Frame("acme", "lower"), "one\ntwo"
            ),
            "RuntimeError in acme.lower (compile): one (because of KeyError: two)",
            "RuntimeError in acme.lower (compile): (3, 4) (because of KeyError: two)",
        ),
        (Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("A", "B")), "A (compile): no message", "A (compile): (3, 4)"),
    ],
)
def test_a_fingerprint_in_one_line(fingerprint, sentence, with_message):
    assert fingerprint.sentence() == sentence
    assert Failure(fingerprint, "A", "(3, 4)").sentence == with_message


def test_compiling_has_two_stages():
    assert [stage for stage in Stage if stage.compiles] == [Stage.COMPILE, Stage.BACKWARD_COMPILE]
