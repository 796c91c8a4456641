"""A process that dies of a signal shows the same failure to the capture, to a probe and to the verification."""

import signal

import pytest

from minifier.capturing.script_limits import failure_of_script
from minifier.data.failure import Kind, Verdict, same
from minifier.process.forked_step import StepEnd
from minifier.reduction.probe.children import ChildEnd
from minifier.reduction.probe.verdicts import judge, seen
from minifier.repro.verify.verdict import End, failure_shown


@pytest.mark.parametrize("number", [signal.SIGSEGV, 32, signal.SIGRTMIN, 35, 63, signal.SIGRTMAX])
def test_every_signal_is_a_failure_of_its_own(number, tmp_path):
    end, other = (ChildEnd(None, 0.1, signal=each) for each in (number, signal.SIGRTMIN + 2))
    probed, verified = seen(end, ()), failure_shown(End(-number, "", 0.1, tmp_path), None)
    assert probed is not None and verified is not None and probed.fingerprint.kind is Kind.SIGNAL
    assert probed.message == verified.message
    assert judge(end, probed.fingerprint).verdict is Verdict.SAME
    assert judge(other, probed.fingerprint).verdict not in (Verdict.SAME, Verdict.PASS)
    captured = failure_of_script(StepEnd(None, number, interrupted=False), {})
    assert captured is not None and same(probed.fingerprint, captured.fingerprint)
