"""Failures of one fingerprint that are not the same all the same."""

import pytest

from minifier.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.failure.likeness import is_alike, place_of_death, proportion


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
def test_an_error_a_hundred_times_less_out_of_proportion_is_another(seen, alike):
    assert is_alike(off(0.5, 1e-7), seen) is alike


def test_a_wrong_result_of_unknown_size_is_like_any():
    assert is_alike(off(None, None), off(3e-4, 1e-7))


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
