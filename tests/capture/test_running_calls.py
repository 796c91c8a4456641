"""What the waiting process reads of the script's calls while they are written."""

import os
import signal

import pytest

from minifier.capturing.running_calls import RunningCalls
from minifier.data.failure import Stage

READS = 20_000


@pytest.mark.usefixtures("processes")
def test_a_call_that_is_being_written_is_whole_or_not_there():
    status = RunningCalls()
    child = os.fork()
    if child == 0:
        while True:
            status.leave(status.enter(Stage.RUN, 7, 3))
    try:
        calls = [call for _ in range(READS) for call in status.running()]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert calls
    assert all((call.stage, call.number, call.call) == (Stage.RUN, 7, 3) and call.begun > 0 for call in calls)
