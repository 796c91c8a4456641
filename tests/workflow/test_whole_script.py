"""The verification of a reduced script."""

import pytest

from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.settings import Settings
from minifier.source.reduce_script import ReducedScript
from minifier.workflow.whole_script import time_limit

FAILURE = Failure(Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("ValueError",)), "ValueError", "no", "")


@pytest.mark.parametrize(("asked", "slowest", "limit"), [(None, 0.3, 120.0), (None, 40.0, 400.0), (30.0, 40.0, 30.0)])
def test_an_interpreter_has_the_time_that_the_script_needs(asked, slowest, limit):
    reduced = ReducedScript("fail()\n", 2, 1, True, (), 1.0, slowest, FAILURE, (), ())
    assert time_limit(Settings(timeout=asked), reduced) == limit
