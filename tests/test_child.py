"""Children of every kind in the one loop that supervises them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minifier.process.child import Child, supervise
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
