"""Which runs of a script count, with interpreters that do what the test says."""

import signal

import pytest

from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.repro.verify import Conditions, verdict, verify
from minifier.repro.verify.verdict import ScriptRun

SOUGHT = Failure(Fingerprint(Stage.RUN, Kind.EXCEPTION, ("ValueError",)), "ValueError", "as it is sought")
SHOWN = ScriptRun(1, SOUGHT, "", 1.0)
PASSED = ScriptRun(0, None, "", 1.0)
KILLED = ScriptRun(-signal.SIGKILL, None, "", 1.0)


class FakeInterpreter:
    """An interpreter that was started ahead of its script, or not, and how the script ends there."""

    def __init__(self, ahead: bool, run: ScriptRun) -> None:
        self.ahead, self.run = ahead, run

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def wait(self, _tick):
        return self.run


@pytest.fixture
def verified(monkeypatch, tmp_path):
    """`verified(runs, ahead, fresh)` verifies a script, one interpreter after the other.

    `ahead` and `fresh` are the ends of the script in interpreters that were started ahead and in others, in their
    order. The first is one of the others, and so are all that come when none is left that was started ahead.
    """

    def verify_with(runs, ahead, fresh):
        ends = {True: list(ahead), False: list(fresh)}

        def started(_script, _conditions, may_be_ahead=False):
            is_ahead = bool(may_be_ahead and ends[True])
            return FakeInterpreter(is_ahead, ends[is_ahead].pop(0))

        monkeypatch.setattr(verdict, "Started", started)
        found = verify(tmp_path / "repro.py", Conditions(SOUGHT.fingerprint, 60), runs=runs, at_once=1)
        return found, ends[False]

    return verify_with


def test_none_counts_of_those_started_ahead_if_one_of_them_does_not_show_the_failure(verified):
    found, unused = verified(3, ahead=[SHOWN, PASSED], fresh=[SHOWN, SHOWN, PASSED])
    assert (found.same, [run is SHOWN for run in found.runs], unused) == (2, [True, True, False], [])


@pytest.mark.parametrize(("fresh", "same"), [([SHOWN, SHOWN], 2), ([KILLED, SHOWN, SHOWN], 2), ([SHOWN, PASSED], 1)])
def test_one_that_somebody_kills_is_replaced_by_one_that_counts(verified, fresh, same):
    found, unused = verified(2, [KILLED], fresh)
    assert (found.same, len(found.runs), unused) == (same, 2, [])
