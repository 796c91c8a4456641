"""From the way a child ended to a verdict."""

import signal

import pytest

from minifier.data.failure import Fingerprint, Frame, Kind, Stage, Verdict
from minifier.reduction.probe.children import ChildEnd
from minifier.reduction.probe.verdicts import judge

PLACE = Frame("oddlib.backends", "lower")
SOUGHT = Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("RuntimeError",), PLACE, PLACE, "no lowering for tanh")


def link(message, kind="RuntimeError"):
    frames = [["oddlib.backends", "lower", "/oddlib/backends.py", 3]]
    return {"type": kind, "bases": ["Exception", "BaseException"], "message": message, "frames": frames}


def failed(message, kind="RuntimeError", stage="compile"):
    return ChildEnd(
        {"status": "failure", "stage": stage, "links": [link(message, kind)], "traceback": "..."}, 0.1, status=0
    )


ENDS = {
    "the same": (failed("no lowering for tanh"), Verdict.SAME),
    "another op": (failed("no lowering for erf"), Verdict.OTHER),
    "another type": (failed("no lowering for tanh", "ValueError"), Verdict.OTHER),
    "another stage": (failed("no lowering for tanh", stage="run"), Verdict.OTHER),
    "pass": (ChildEnd({"status": "pass"}, 0.1, status=0), Verdict.PASS),
    "eager fails": (
        ChildEnd({"status": "invalid", "links": [link("no lowering for tanh")], "traceback": ""}, 0.1, status=0),
        Verdict.INVALID,
    ),
    "signal": (ChildEnd(None, 0.1, signal=signal.SIGSEGV), Verdict.OTHER),
    "exit": (ChildEnd(None, 0.1, status=3), Verdict.OTHER),
    "timeout": (ChildEnd(None, 9.0, timed_out=True, signal=signal.SIGKILL), Verdict.UNRESOLVED),
    "memory": (failed("arena exhausted", "MemoryError"), Verdict.UNRESOLVED),
    "own fault": (ChildEnd(None, 0.1, status=0, fault="Traceback ..."), Verdict.UNRESOLVED),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_end_has_its_verdict(name):
    ended, verdict = ENDS[name]
    judged = judge(ended, SOUGHT)
    assert judged.verdict is verdict
    assert (judged.failure is None) == (name in ("pass", "own fault"))
    assert bool(judged.fault) == (name == "own fault")


@pytest.mark.parametrize(
    ("ended", "kind", "message"),
    [
        (ChildEnd(None, 0.1, signal=signal.SIGSEGV, stage="compile"), Kind.SIGNAL, "SIGSEGV"),
        (ChildEnd(None, 0.1, status=3, stage="compile"), Kind.EXIT, "exit status 3"),
        (failed("arena exhausted", "MemoryError"), Kind.OUT_OF_MEMORY, "no more memory"),
    ],
)
def test_deaths_and_lack_of_memory_can_be_what_is_sought(ended, kind, message):
    found = judge(ended, SOUGHT).failure.fingerprint
    assert (found.stage, found.kind, found.message) == (Stage.COMPILE, kind, message)
    assert judge(ended, found).verdict is Verdict.SAME


def test_a_timeout_that_is_sought_is_the_same_whatever_its_length():
    sought = judge(ChildEnd(None, 8.0, timed_out=True, stage="compile"), SOUGHT).failure.fingerprint
    assert judge(ChildEnd(None, 9.4, timed_out=True, stage="compile"), sought).verdict is Verdict.SAME
    assert judge(ChildEnd(None, 9.4, timed_out=True, stage="run"), sought).verdict is Verdict.UNRESOLVED


def test_another_signal_is_another_failure():
    sought = judge(ChildEnd(None, 0.1, signal=signal.SIGSEGV, stage="compile"), SOUGHT).failure.fingerprint
    assert judge(ChildEnd(None, 0.1, signal=signal.SIGABRT, stage="compile"), sought).verdict is Verdict.OTHER


def test_match_is_about_the_message_alone():
    ended = failed("tanh after layer_norm is not supported", "ValueError")
    assert judge(ended, SOUGHT).verdict is Verdict.OTHER
    assert judge(ended, SOUGHT, match="tanh").verdict is Verdict.SAME
    assert judge(ended, SOUGHT, match="erf").verdict is Verdict.OTHER


def test_a_death_in_another_function_of_the_backend_is_another_failure():
    def died(function):
        output = f'  File "/home/me/acme.py", line 3, in {function}\n'
        return ChildEnd(None, 0.1, signal=signal.SIGSEGV, stage="compile", output=output)

    first = judge(died("lower"), SOUGHT).failure
    found = [judge(died(name), first.fingerprint, first=first).verdict for name in ("lower", "fuse")]
    assert found == [Verdict.SAME, Verdict.OTHER]
    assert judge(died("fuse"), first.fingerprint, match="SIGSEGV", first=first).verdict is Verdict.SAME
