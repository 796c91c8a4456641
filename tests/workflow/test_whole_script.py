"""The verification of a reduced script."""

from dataclasses import replace

import pytest

from minifier.data.failure import Failure, Fingerprint, Frame, Kind, Stage
from minifier.data.settings import Settings
from minifier.flow.whole_script import time_limit
from minifier.repro.source.reduce_script import ReducedScript, shows_failure_of_call

FAILURE = Failure(Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("ValueError",)), "ValueError", "no", "")


@pytest.mark.parametrize(("asked", "slowest", "limit"), [(None, 0.3, 120.0), (None, 40.0, 400.0), (30.0, 40.0, 30.0)])
def test_an_interpreter_has_the_time_that_the_script_needs(asked, slowest, limit):
    reduced = ReducedScript("fail()\n", 2, 1, True, (), 1.0, slowest, FAILURE, (), ())
    assert time_limit(Settings(timeout=asked), reduced) == limit


def failure_at(function, message="no", kind="ValueError"):
    raising = Frame("torch.fx.graph_module", function)
    return Fingerprint(Stage.RUN, Kind.EXCEPTION, (kind,), raising, message=message)


@pytest.mark.parametrize(
    ("shown", "is_same"),
    [
        (failure_at("__call__"), True),
        (failure_at("forward"), True),
        (failure_at("forward", "yes"), False),
        (failure_at("forward", kind="TypeError"), False),
    ],
)
def test_a_run_of_the_script_shows_the_captured_failure_wherever_it_is_raised(shown, is_same):
    assert shows_failure_of_call(failure_at("__call__"), replace(shown, stage=Stage.COMPILE)) is is_same


def test_an_end_without_an_exception_is_told_by_more_than_its_types():
    sought, shown = (Fingerprint(Stage.RUN, kind) for kind in (Kind.SIGNAL, Kind.EXIT))
    assert not shows_failure_of_call(sought, shown)
