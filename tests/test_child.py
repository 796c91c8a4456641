"""Children of every kind in the one loop that supervises them."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from clock import Clock, is_alive, wait_until

from minifier.process import child as child_module
from minifier.process.child import Child, end, supervise
from minifier.process.descendants import read_threads
from minifier.process.forked_step import run_step
from minifier.process.interrupts import end_by_signals

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("processes")]
HANGS = "import signal; signal.pause()"


def started(code: str, seconds: float, **how: Any) -> Child:
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    process.returncode = 0  # supervise waits for it
    return Child(process.pid, seconds, **how)


def wait_for_the_end_of(pid: int) -> None:
    wait_until(lambda: not is_alive(pid), f"process {pid} has ended")


def test_forked_and_started_children_end_each_in_its_own_way():
    before = set(os.listdir("/proc/self/fd"))
    read_end, write_end = os.pipe()

    def answer():
        os.write(write_end, b"done")
        os._exit(3)

    forked = Child.forked(answer, 30, pipe=read_end)
    os.close(write_end)
    hangs = started(HANGS, 0.6)
    dies = started("import os; os.abort()", 30)
    supervise([forked, hangs, dies])
    assert set(os.listdir("/proc/self/fd")) == before
    assert (forked.code, forked.status, forked.signal, forked.data) == (3, 3, None, b"done")
    assert (hangs.timed_out, hangs.signal) == (True, signal.SIGKILL)
    assert (dies.timed_out, dies.status, dies.signal) == (False, None, signal.SIGABRT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_program_is_started_ends_both(number, forked):
    def work():
        swallowed, before = [], signal.pthread_sigmask(signal.SIG_BLOCK, [])
        sys.unraisablehook = swallowed.append
        end_by_signals()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.register_at_fork(after_in_parent=lambda: signal.raise_signal(number))
        with pytest.raises((SystemExit, KeyboardInterrupt)):
            Child.launched(["sleep", "inf"])
        assert not swallowed and signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    forked(work)


def test_a_look_is_made_as_often_as_one_asks_for():
    clock = Clock()
    child, ticks, seen = started(HANGS, 30, now=clock), [], []

    def asks_for_more(running):
        seen.append((len(ticks), running))
        if len(seen) == 3:
            running[0].stop()
        return 0.001

    def tick():
        clock.move(0.1)  # a quarter of a second is three rounds
        ticks.append(None)

    supervise([child], tick, [lambda _: None, asks_for_more], clock)
    first, second, third = (rounds for rounds, _ in seen[:3])
    assert seen[0][1] == [child] and (second, third) == (first + 1, first + 2)


def test_what_outlives_a_child_in_its_group_is_killed(tmp_path):
    note = tmp_path / "pid"
    child = started(
        f"import os, signal\npid = os.fork()\nif pid == 0: signal.pause()\nopen({str(note)!r}, 'w').write(str(pid))", 30
    )
    supervise([child])
    assert child.code == 0
    wait_for_the_end_of(int(note.read_text()))


def test_an_error_while_a_step_runs_leaves_none_of_its_processes(tmp_path):
    note = tmp_path / "pid"

    def work():
        grandchild = subprocess.Popen(["sleep", "inf"], start_new_session=True)
        note.write_text(f"{os.getpid()} {grandchild.pid}")
        signal.pause()
        return 0

    def tick():
        if note.exists() and note.read_text():
            raise SystemExit("a SIGTERM for this process")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        run_step(work, tick)
    for pid in note.read_text().split():
        wait_for_the_end_of(int(pid))
    assert signal.getsignal(signal.SIGINT) is before


STUBBORN = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "inf"], start_new_session=True).pid, flush=True)
signal.pause()
"""


def test_a_program_that_goes_on_after_sigterm_is_killed_with_its_children():
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        end(process, 0.1)
        assert process.returncode == -signal.SIGKILL
    wait_for_the_end_of(child)


def test_time_in_which_everything_was_suspended_counts_for_no_limit():
    clock = Clock()
    read_end, write_end = os.pipe()
    child = Child.forked(lambda: os._exit(len(os.read(read_end, 1))), 5, now=clock)

    def tick():
        if clock.seconds == 1000.0:
            clock.move(100.0)  # Ctrl-Z, and fg
        elif child.excused:
            os.write(write_end, b"1")

    supervise([child], tick, now=clock)
    os.close(read_end)
    os.close(write_end)
    assert (child.code, child.timed_out, child.excused, child.seconds) == (1, False, 100.0, 0.0)


@pytest.fixture
def schedule(monkeypatch):
    """What the kernel tells of a process: for each thread, the seconds that it ran, and waited for a processor."""
    threads = {}
    monkeypatch.setattr(child_module, "tree", lambda pid: [pid])
    monkeypatch.setattr(
        child_module,
        "read_threads",
        lambda pid, name: {
            thread: f"{int(ran * 1e9)} {int(waited * 1e9)} 0" for thread, (ran, waited) in threads.items()
        },
    )
    return threads


@pytest.mark.parametrize(
    ("ran", "waited", "excused"),
    [
        ([2], [6], 6),  # beside three that compute
        ([8], [0], 0),
        ([0], [0], 0),  # it sleeps
        ([2, 2], [6, 6], 6),  # no longer than the time that passes
        ([2, 0], [6, 0], 6),
    ],
)
def test_time_in_which_a_child_waits_for_a_processor_counts_for_no_limit(schedule, ran, waited, excused):
    clock = Clock()
    child = Child(0, 20, now=clock)
    clock.move(8)
    schedule.update(enumerate(zip(ran, waited, strict=True)))
    child.excuse()
    assert (child.excused, child.seconds, child.deadline) == (excused, 8 - excused, 1020 + excused)
    child.excuse()
    assert child.excused == excused, "right after it nothing is new"


@pytest.fixture
def busy():
    """Run the test, and all processes that it starts, on one processor, beside four that compute."""
    before, one = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(0, one)
    spinning = [subprocess.Popen([sys.executable, "-c", COMPUTES]) for _ in range(4)]
    yield
    for process in spinning:
        process.kill()
        process.wait()
    os.sched_setaffinity(0, before)


COMPUTES = "while True: pass"


@pytest.mark.usefixtures("busy")
def test_the_kernel_tells_who_waits_for_a_processor():
    child = started(COMPUTES, 60)
    try:
        wait_until(lambda: child.excuse() or child.excused)
    finally:
        child.kill()


@pytest.mark.usefixtures("busy")
def test_what_computes_without_end_is_stopped_on_a_busy_machine():
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COMPUTES!r}])"
    children = [started(COMPUTES, 0.5), started(nested, 0.5)]
    supervise(children)
    assert all(child.timed_out for child in children)


def test_threads_and_processes_that_end_while_they_are_read_are_left_out(monkeypatch):
    own, gone = str(os.getpid()), str(2**22 + 1)
    assert read_threads(int(gone), "schedstat") == {}
    monkeypatch.setattr(os, "listdir", lambda _: [gone, own])
    assert list(read_threads(os.getpid(), "schedstat")) == [own]
