"""Failures of one fingerprint that are not the same all the same."""

from dataclasses import replace

import pytest

from minifier.data.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.data.failure.likeness import is_alike, place_of_death, proportion


def off(error, own, noise=None, aspect=Aspect.VALUES):
    differences = (Difference(aspect, "output 0", "it is off", error, own, noise),)
    return Failure(Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message=aspect.value), "", "", differences=differences)


def died(*frames, kind=Kind.SIGNAL):
    text = "".join(f'  File "{file}", line 3, in {function}\n' for file, function in frames)
    return Failure(Fingerprint(Stage.COMPILE, kind, message="SIGSEGV"), "signal", "SIGSEGV", text)


def test_an_error_is_measured_by_eagers_own():
    assert proportion(off(1.0, 0.01)) == 100
    assert proportion(off(1.0, 0.01, 0.1)) == 10
    assert proportion(off(1.0, 0.0)) is None and proportion(off(None, None)) is None


@pytest.mark.parametrize(
    ("seen", "alike"),
    [(off(0.5, 1e-7), True), (off(1e-3, 1e-9), True), (off(3e-4, 1e-7), False), (off(3e-4, 0.0), True)],
)
def test_an_error_a_hundred_times_less_out_of_proportion_is_another_unless_it_is_huge(seen, alike):
    assert is_alike(off(0.5, 1e-7), seen) is alike
    assert is_alike(off(0.5, 1e-18), off(0.5, 1e-14)) and not is_alike(off(0.5, 1e-18), off(1e-7, 1e-17))


def test_a_wrong_result_of_unknown_size_is_like_any():
    assert is_alike(off(None, None), off(3e-4, 1e-7))


@pytest.mark.parametrize("sought", [False, True])
@pytest.mark.parametrize("seen", [False, True])
def test_a_program_whose_own_result_is_not_a_number_is_another_unless_the_sought_one_has_that_too(sought, seen):
    def of(has_nan):
        failure = off(0.5, 1e-7)
        return replace(failure, differences=(replace(failure.differences[0], has_nan=has_nan),))

    assert is_alike(of(sought), of(seen)) is (sought or not seen)


def test_a_process_that_died_in_another_function_died_of_something_else():
    one = died(("/home/me/torch/_dynamo/x.py", "compile"), ("/home/me/acme/lower.py", "fuse"))
    two = died(("/home/me/acme/lower.py", "table"))
    assert place_of_death(one) == ("fuse",) and not is_alike(one, two)
    assert is_alike(one, one) and is_alike(one, died()) and is_alike(died(), two)


def test_frames_of_torch_and_python_do_not_tell_where():
    text = ("/usr/lib/site-packages/torch/fx/graph.py", "__call__")
    assert place_of_death(died(("/home/me/acme.py", "run"), text)) == ("run",)
    import ctypes

    assert place_of_death(died(("/home/me/acme.py", "run"), (ctypes.__file__, "string_at"))) == ("run",)
    assert place_of_death(died(("/home/me/acme.py", "run"), kind=Kind.TIMEOUT)) == ()


def test_who_called_the_function_counts_within_its_file():
    one = died(("/home/me/script.py", "main"), ("/home/me/acme.py", "lower_tanh"), ("/home/me/acme.py", "launch"))
    two = died(("/home/me/acme.py", "lower_exp"), ("/home/me/acme.py", "launch"))
    alone = died(("/home/me/script.py", "main"), ("/home/me/acme.py", "launch"))
    assert place_of_death(one) == ("launch", "lower_tanh") and place_of_death(alone) == ("launch",)
    assert not is_alike(one, two) and is_alike(one, alone)


def several(*differences):
    return Failure(
        Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values"),
        "",
        "",
        differences=tuple(Difference(aspect, "", "", error, own) for aspect, error, own in differences),
    )


def test_the_worst_difference_of_the_kind_that_was_told_counts():
    worst = several((Aspect.VALUES, 1.0, 0.1), (Aspect.VALUES, 3.0, 0.1), (Aspect.GRADIENT, 9.0, 0.1))
    assert proportion(worst) == pytest.approx(30)
    assert proportion(several((Aspect.VALUES, None, 0.1), (Aspect.GRADIENT, 9.0, 0.1))) is None
    assert proportion(several()) is None


def test_one_caller_counts_and_only_from_the_same_file():
    frames = [("/home/me/acme.py", name) for name in ("outermost", "outer", "inner")]
    assert place_of_death(died(*frames)) == ("inner", "outer")
    assert place_of_death(died(frames[0], ("/home/me/other.py", "inner"))) == ("inner",)
    assert place_of_death(died(frames[0], ("/home/me/other.py", "between"), frames[2])) == ("inner",)
    assert is_alike(died(*frames), died(frames[0], frames[2])) is False


def test_code_of_no_file_and_of_python_dies_of_nothing_but_packages_do():
    import sysconfig

    stdlib = sysconfig.get_path("stdlib")
    assert place_of_death(died(("/home/me/acme.py", "run"), ("<string>", "made"))) == ("run",)
    assert place_of_death(died(("/home/me/acme.py", "run"), (f"{stdlib}/json/decoder.py", "parse"))) == ("run",)
    assert place_of_death(died((f"{stdlib}/site-packages/acme/a.py", "lower"))) == ("lower",)
    assert place_of_death(died(("<string>", "made"))) == ()


def test_the_error_of_the_sought_aspect_is_measured_where_another_shows_first():
    dtype = Difference(Aspect.DTYPE, "output 0", "it is of another type")
    values = Difference(Aspect.VALUES, "output 0", "it is off", 1.0, 0.01)
    fingerprint = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values")
    assert proportion(Failure(fingerprint, "", "", differences=(dtype, values))) == 100
