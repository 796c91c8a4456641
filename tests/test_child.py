"""Children of every kind in the one loop that supervises them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minifier.process.child import Child, end, supervise
from minifier.process.forked_step import run_step

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("processes")]


def started(code: str, seconds: float) -> Child:
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    process.returncode = 0  # supervise waits for it
    return Child(process.pid, seconds)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_soon(pid: int) -> bool:
    until = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)


def test_forked_and_started_children_end_each_in_its_own_way():
    before = set(os.listdir("/proc/self/fd"))
    read_end, write_end = os.pipe()

    def answer():
        os.write(write_end, b"done")
        os._exit(3)

    forked = Child.forked(answer, 30, pipe=read_end)
    os.close(write_end)
    hangs = started("import time; time.sleep(60)", 0.6)
    dies = started("import os; os.abort()", 30)
    supervise([forked, hangs, dies])
    assert set(os.listdir("/proc/self/fd")) == before
    assert (forked.code, forked.status, forked.signal, forked.data) == (3, 3, None, b"done")
    assert (hangs.timed_out, hangs.signal) == (True, signal.SIGKILL) and 0.6 <= hangs.seconds < 10
    assert (dies.timed_out, dies.status, dies.signal) == (False, None, signal.SIGABRT)


def test_a_look_is_made_as_often_as_one_asks_for():
    child, looks = started("import time; time.sleep(1.5)", 30), []
    supervise([child], looks=[lambda _: None, lambda running: looks.append(running) or 0.02])
    assert len(looks) > 15 and looks[0] == [child]


def test_what_outlives_a_child_in_its_group_is_killed(tmp_path):
    note = tmp_path / "pid"
    child = started(
        f"import os, time\npid = os.fork()\nif pid == 0: time.sleep(60)\nopen({str(note)!r}, 'w').write(str(pid))", 30
    )
    supervise([child])
    assert child.code == 0 and gone_soon(int(note.read_text()))


def test_a_child_is_waited_for_once():
    child = started("pass", 30)
    supervise([child])
    supervise([child])
    child.kill()
    child.send(signal.SIGTERM)
    assert child.code == 0 and child.has_ended


def test_an_error_while_a_step_runs_leaves_none_of_its_processes(tmp_path):
    note = tmp_path / "pid"

    def work():
        grandchild = subprocess.Popen(["sleep", "60"], start_new_session=True)
        note.write_text(f"{os.getpid()} {grandchild.pid}")
        time.sleep(60)
        return 0

    def tick():
        if note.exists() and note.read_text():
            raise SystemExit("a SIGTERM for this process")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        run_step(work, tick)
    assert all(gone_soon(int(pid)) for pid in note.read_text().split())
    assert signal.getsignal(signal.SIGINT) is before


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""


def test_a_program_that_goes_on_after_sigterm_is_killed_with_its_children():
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        end(process, 0.1)
        assert process.returncode == -signal.SIGKILL and gone_soon(child)


def test_a_program_that_ends_by_sigterm_is_waited_for():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        end(process)
        assert process.returncode == -signal.SIGTERM


@pytest.fixture
def busy():
    """Run the test, and all processes that it starts, on one processor, beside four that compute."""
    before, one = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(0, one)
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for process in spinning:
        process.kill()
        process.wait()
    os.sched_setaffinity(0, before)


COMPUTES = "import time\nwhile time.process_time() < {seconds}: pass"


@pytest.mark.usefixtures("busy")
def test_time_in_which_a_child_waits_for_a_processor_counts_for_no_limit():
    begun = time.monotonic()
    computes, sleeps = started(COMPUTES.format(seconds=2), 6), started("import time; time.sleep(60)", 6)
    supervise([computes, sleeps])
    assert computes.code == 0 and not computes.timed_out and computes.seconds < 6 < time.monotonic() - begun
    assert sleeps.timed_out


@pytest.mark.usefixtures("busy")
def test_what_computes_without_end_is_stopped_on_a_busy_machine():
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COMPUTES.format(seconds=99)!r}])"
    children = [started(COMPUTES.format(seconds=99), 1), started(nested, 1)]
    supervise(children)
    assert all(child.timed_out and child.seconds >= 1 for child in children)


def test_several_threads_wait_no_longer_than_the_time_that_passes():
    code = "import threading\nfor _ in range(8): threading.Thread(target=lambda: max(range(10**9))).start()"
    begun, child = time.monotonic(), started(code, 1)
    supervise([child])
    assert child.timed_out and 0 <= child.excused < time.monotonic() - begun
