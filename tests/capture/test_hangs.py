"""A backend call that does not come back ends the script, and is a failure."""

import os
import signal
import subprocess
import sys

import pytest
import torch
from clock import Clock, is_alive

from minifier.capturing import script_limits
from minifier.capturing.capture import GraphProgress
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.script_limits import FIRST_LIMIT_SECONDS as FIRST
from minifier.capturing.script_limits import MIN_LIMIT_SECONDS as LEAST
from minifier.capturing.script_limits import Keep, Terms, Watch
from minifier.data.failure import Kind, Stage
from minifier.process.child import Child, kill_tree
from minifier.process.descendants import descendants, processor_seconds
from minifier.process.progress import Phase, Progress, Ui
from minifier.torch_side.fx.tensors import StoredTensors

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
    captured = bureau.capture(script(options))
    (failing,) = captured.failing
    fingerprint = failing.failure.fingerprint
    assert (fingerprint.stage.value, fingerprint.kind.value, fingerprint.message) == ("compile", "timeout", "no end")
    assert captured.end.signal == 9 and not captured.end.interrupted
    lines = failing.failure.traceback.splitlines()
    assert "failing.py" in lines[1] and "in end" in lines[-2] and "minifier/" not in failing.failure.traceback
    case = bureau.case()
    assert case.failure == failing.failure and 0 < case.script.seconds < 3600 < captured.seconds


def test_a_hang_that_the_request_for_its_stack_ends_is_one(bureau):
    (failing,) = bureau.capture(script("{'how': 'sleep in C', 'stage': 'compile'}")).failing
    assert failing.failure.fingerprint.kind is Kind.TIMEOUT and failing.failure.fingerprint.message == "no end"


def test_at_run_time_the_second_run_waits_no_longer_than_needed(bureau):
    options = "{'how': 'sleep', 'call': 3}"
    captured = bureau.capture(script(options))
    (failing,) = captured.failing
    assert (failing.stage, failing.call) == (Stage.RUN, 3) and failing.inputs_lost
    seen, case, _ = bureau.capture_again(captured, limit=10_000)
    assert (seen.stage, seen.call, case.calls) == (Stage.RUN, 3, 3)
    assert case.failure.fingerprint == seen.failure.fingerprint == failing.failure.fingerprint
    stored = StoredTensors(case.tensors).get(case.inputs[0].source.key)
    assert torch.equal(stored, torch.full((3,), 2.0))


def test_what_the_script_started_ends_with_it(bureau):
    bureau.capture(
        "import subprocess\nstarted = subprocess.Popen(['sleep', 'inf'], start_new_session=True)\n"
        "open(__file__ + '.pid', 'w').write(str(started.pid))\n" + script("{'how': 'sleep'}")
    )
    assert not is_alive(int((bureau.folder / "failing.py.pid").read_text()))


def test_a_script_that_has_the_signal_for_itself_is_ended_without_a_stack(bureau):
    captured = bureau.capture(
        "import signal\nsignal.signal(signal.SIGRTMAX - 1, signal.SIG_IGN)\n" + script("{'how': 'sleep'}")
    )
    (failing,) = captured.failing
    assert failing.failure.fingerprint.kind is Kind.TIMEOUT and failing.failure.traceback == ""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def status(clock):
    return RunningCalls(now=clock)


@pytest.fixture
def watched(status, clock, tmp_path, monkeypatch):
    """`watched(terms)` makes a watch with no process, and a list of the seconds after which it has ended a call."""
    child = Child(0, now=clock)  # no process has this number
    monkeypatch.setattr(child, "stop", lambda: None)

    def on(terms):
        watch, ended = Watch(status, tmp_path / "stacks", terms), []
        monkeypatch.setattr(watch, "_blame", lambda call, lasted: ended.append(lasted))
        return watch, child, ended

    return on


def test_the_limit(status, clock, tmp_path):
    watch = Watch(status, tmp_path / "stacks", Terms())
    token = status.enter(Stage.RUN, 1, 4)
    (call,) = status.running()
    assert watch.limit(call) == LEAST
    clock.move(30)
    status.leave(token)
    assert status.slowest == 30 and watch.limit(call) == 150
    assert Watch(status, tmp_path, Terms(timeout=3)).limit(call) == 3
    kept = Watch(status, tmp_path, Terms(timeout=30, keep=Keep(1, 4, patience=2.5)))
    assert kept.limit(call) == 2.5
    status.enter(Stage.RUN, 1, 5)
    assert kept.limit(status.running()[0]) == 30


def test_a_hang_outside_of_backend_calls_is_the_scripts_own_matter(status, clock, watched):
    watch, child, ended = watched(Terms(timeout=1.5))
    status.leave(status.enter(Stage.RUN, 1, 1))
    for _ in range(10):
        clock.move(1.0)
        watch([child])
    assert ended == [] and not watch.has_lingered and not child.is_stopped


def test_time_in_which_everything_stood_still_does_not_count(status, clock, watched):
    watch, child, ended = watched(Terms(timeout=5))
    status.enter(Stage.COMPILE, 1, 0)
    for passed, suspended in ((0.3, 0), (0.3, 0), (59.4, 59.4), (0.3, 0), (2.7, 2.7)):  # somebody pressed Ctrl-Z
        clock.move(passed)
        child.excuse(suspended)
        watch([child])
    assert ended == []
    while not ended:
        clock.move(1.0)
        watch([child])
    assert ended == [pytest.approx(5.9)]


@pytest.mark.parametrize(
    ("computes", "ends"),
    [(lambda seconds: 0.0, LEAST), (lambda seconds: seconds, FIRST), (lambda seconds: min(seconds, 200.0), 260)],
    ids=["waits", "computes", "waits at last"],
)
def test_the_first_call_is_waited_for_as_long_as_it_computes(status, clock, watched, monkeypatch, computes, ends):
    """The slowest call says nothing as long as none has come back."""
    watch, child, ended = watched(Terms())
    status.enter(Stage.COMPILE, 1, 0)
    began = clock()
    monkeypatch.setattr(script_limits, "processor_seconds", lambda pids: computes(clock() - began))
    while not ended and clock() - began < 700:
        watch([child])
        clock.move(1.0)
    assert ended and abs(ended[0] - ends) < 10


def test_of_a_call_that_lasts_long_the_status_line_says_when_it_counts_as_a_hang(status, clock, watched, tmp_path):
    watch, child, _ = watched(Terms(timeout=50))
    shown = []
    display = Ui()
    display.show = shown.append
    graphs = GraphProgress(tmp_path, Progress(Phase.SCRIPT, "it.py"), display, watch)
    token = status.enter(Stage.COMPILE, 1, 0)
    for seconds in (1.0, 30.0):
        clock.move(seconds)
        watch([child])
        graphs.tick()
    status.leave(token)
    watch([child])
    graphs.tick()
    assert [progress.clock(99) for progress in shown] == ["99 s", "31 of 50 s", "99 s"]


class PressesOnce(Ui):
    """Presses Ctrl-C as soon as the line says what that means."""

    def __init__(self):
        self.presses = 0

    def show(self, progress):
        if "Ctrl-C" in progress.step and not self.presses:
            self.presses += 1
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_takes_a_call_that_lasts_long_for_a_hang(bureau, monkeypatch):
    monkeypatch.setattr(script_limits, "_LONG_SECONDS", 0.2)
    captured = bureau.capture(script("{'how': 'sleep', 'stage': 'compile'}"), limit=10_000, ui=PressesOnce())
    (failing,) = captured.failing
    assert failing.failure.fingerprint.kind is Kind.TIMEOUT and not captured.end.interrupted
    assert "in end" in failing.failure.traceback and bureau.case().failure == failing.failure


def test_before_a_call_has_lasted_long_ctrl_c_is_an_interrupt(status, clock, watched):
    watch, child, ended = watched(Terms())
    status.enter(Stage.COMPILE, 1, 0)
    for seconds, hangs in ((9.0, False), (2.0, True)):
        clock.move(seconds)
        watch([child])
        assert (watch.take_for_hang(), status.lasts_long, bool(ended)) == (hangs, hangs, hangs)


@pytest.mark.usefixtures("processes")
def test_what_a_process_and_its_children_compute_is_measured():
    spin = "import time\nwhile time.process_time() < 0.4: pass"
    with subprocess.Popen([sys.executable, "-c", f"{spin}\nprint(flush=True)\ninput()"], **PIPES) as child:
        child.stdout.readline()
        assert processor_seconds([child.pid]) > 0.3
        child.communicate(b"\n")
    with subprocess.Popen(["sh", "-c", "sleep inf & echo; wait"], stdout=subprocess.PIPE) as shell:
        shell.stdout.readline()
        assert len(descendants(shell.pid)) == 1 and processor_seconds([shell.pid, *descendants(shell.pid)]) < 0.3
        kill_tree(shell.pid)
