"""A backend call that does not come back ends the script, and is a failure."""

import subprocess
import sys
import time

import pytest
import torch

from minifier.capturing import watch as watch_module
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.terms import Keep, Terms
from minifier.capturing.watch import FIRST_LIMIT_SECONDS as FIRST
from minifier.capturing.watch import MIN_LIMIT_SECONDS as LEAST
from minifier.capturing.watch import Watch
from minifier.failure import Stage
from minifier.fx.tensors import StoredTensors
from minifier.process.child import Child, kill_tree
from minifier.process.usage import descendants, processor_seconds

pytestmark = pytest.mark.timeout(120)

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
SCRIPT = """
import torch
import oddlib.deadly

f = torch.compile(lambda x: torch.tanh(x) + 1, backend="oddlib_ends", options=OPTIONS)
for i in range(4):
    f(torch.full((3,), float(i)))
"""


def script(options):
    return SCRIPT.replace("OPTIONS", options)


@pytest.mark.parametrize("how", ["sleep", "spin"])
def test_while_compiling(bureau, how):
    options = f"{{'how': {how!r}, 'stage': 'compile'}}"
    captured = bureau.capture(script(options), timeout=100, limit=3)
    (failing,) = captured.failing
    fingerprint = failing.failure.fingerprint
    assert (fingerprint.stage.value, fingerprint.kind.value, fingerprint.message) == ("compile", "timeout", "no end")
    assert failing.failure.message == "no end after 3 s" and "no end after 3 s while oddlib_ends" in failing.sentence
    assert captured.end.signal == 9 and not captured.end.interrupted
    lines = failing.failure.traceback.splitlines()
    assert "failing.py" in lines[1] and "in end" in lines[-2] and "minifier/" not in failing.failure.traceback
    case = bureau.case()
    assert case.failure == failing.failure and case.script.seconds < captured.seconds - 2.5


def test_a_hang_that_the_request_for_its_stack_ends_is_one(bureau):
    captured = bureau.capture(script("{'how': 'sleep in C', 'stage': 'compile'}"), timeout=100, limit=2)
    (failing,) = captured.failing
    assert failing.failure.message == "no end after 2 s" and failing.failure.fingerprint.message == "no end"


def test_at_run_time_the_second_run_waits_no_longer_than_needed(bureau):
    options = "{'how': 'sleep', 'call': 3}"
    captured = bureau.capture(script(options), timeout=100, limit=7)
    (failing,) = captured.failing
    assert (failing.stage, failing.call) == (Stage.RUN, 3) and "no end after 7 s in call 3" in failing.inputs_lost
    started = time.monotonic()
    seen, case, _ = bureau.capture_again(captured, limit=1000)
    assert time.monotonic() - started < 60
    assert seen == failing and case.failure == failing.failure and case.calls == 3
    stored = StoredTensors(case.tensors).get(case.inputs[0].source.key)
    assert torch.equal(stored, torch.full((3,), 2.0))


def test_a_hang_outside_of_backend_calls_is_the_scripts_own_matter(bureau):
    captured = bureau.capture(script("{'call': 9}") + "\nimport time\ntime.sleep(4)\n", timeout=100, limit=1.5)
    assert captured.failing == () and captured.end.status == 0


def test_what_the_script_started_ends_with_it(bureau):
    bureau.capture(
        "import subprocess\nsubprocess.Popen(['sleep', '4712.5'], start_new_session=True)\n"
        + script("{'how': 'sleep'}"),
        timeout=100,
        limit=2,
    )
    found = subprocess.run(["pgrep", "-f", "sleep 4712.5"], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_a_script_that_has_the_signal_for_itself_is_ended_without_a_stack(bureau):
    captured = bureau.capture(
        "import signal\nsignal.signal(signal.SIGRTMAX - 1, signal.SIG_IGN)\n" + script("{'how': 'sleep'}"),
        timeout=100,
        limit=2,
    )
    (failing,) = captured.failing
    assert failing.failure.message.startswith("no end after") and failing.traceback == ""


def test_the_limit(tmp_path):
    status = RunningCalls()
    watch = Watch(status, tmp_path / "stacks", Terms())
    token = status.enter(Stage.RUN, 1, 4)
    (call,) = status.running()
    assert watch.limit(call) == LEAST
    time.sleep(0.2)
    status.leave(token)
    assert 0.2 <= status.slowest < 5
    status._slowest = 0  # a call of 30 s is not waited for here
    status.leave((64, b"", time.monotonic() - 30))
    assert watch.limit(call) == pytest.approx(300, abs=5)
    assert Watch(status, tmp_path, Terms(timeout=3)).limit(call) == 3
    kept = Watch(status, tmp_path, Terms(timeout=30, keep=Keep(1, 4, patience=2.5)))
    assert kept.limit(call) == 2.5
    status.enter(Stage.RUN, 1, 5)
    assert kept.limit(status.running()[0]) == 30


def test_time_in_which_everything_stood_still_does_not_count(tmp_path, monkeypatch):
    status = RunningCalls()
    watch = Watch(status, tmp_path / "stacks", Terms(timeout=5))
    ended = []
    child = Child(0)  # no process has this number
    monkeypatch.setattr(child, "stop", lambda: None)
    monkeypatch.setattr(watch, "_blame", lambda call, lasted: ended.append(lasted))
    status.enter(Stage.COMPILE, 1, 0)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for later, suspended in ((0.3, 0), (0.6, 0), (60.0, 59.4), (60.3, 0), (63.0, 2.7)):  # somebody pressed Ctrl-Z
        monkeypatch.setattr(time, "monotonic", lambda later=later: now + later)
        child.excuse(suspended)
        watch([child])
    assert ended == []
    for later in (64.0, 65.0, 66.0, 67.0, 68.0, 69.0):
        monkeypatch.setattr(time, "monotonic", lambda later=later: now + later)
        watch([child])
    assert ended


@pytest.mark.parametrize(
    ("computes", "ends"),
    [(lambda seconds: 0.0, LEAST), (lambda seconds: seconds, FIRST), (lambda seconds: min(seconds, 200.0), 260)],
    ids=["waits", "computes", "waits at last"],
)
def test_the_first_call_is_waited_for_as_long_as_it_computes(tmp_path, monkeypatch, computes, ends):
    """Ten times the slowest call says nothing as long as none has come back."""
    status = RunningCalls()
    watch = Watch(status, tmp_path / "stacks", Terms())
    ended = []
    child = Child(0)  # no process has this number
    monkeypatch.setattr(child, "stop", lambda: None)
    monkeypatch.setattr(watch, "_blame", lambda call, lasted: ended.append(lasted))
    status.enter(Stage.COMPILE, 1, 0)
    began = time.monotonic()
    for second in range(700):
        monkeypatch.setattr(time, "monotonic", lambda: began + second)  # noqa: B023 - called in this round only
        monkeypatch.setattr(watch_module, "processor_seconds", lambda pids: computes(second))  # noqa: B023
        watch([child])
        if ended:
            break
    assert ended and abs(ended[0] - ends) < 10


@pytest.mark.usefixtures("processes")
def test_what_a_process_and_its_children_compute_is_measured():
    spin = "import time\nwhile time.process_time() < 0.4: pass"
    with subprocess.Popen([sys.executable, "-c", f"{spin}\nprint(flush=True)\ninput()"], **PIPES) as child:
        child.stdout.readline()
        assert 0.3 < processor_seconds([child.pid]) < 5
        child.communicate(b"\n")
    with subprocess.Popen(["sh", "-c", "sleep 30 & wait"]) as shell:
        time.sleep(0.5)
        assert processor_seconds([shell.pid, *descendants(shell.pid)]) < 0.2 and len(descendants(shell.pid)) == 1
        kill_tree(shell.pid)
