"""Real children: what they do to themselves, and what is left of them."""

import ast
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clock import is_alive, wait_until

from minifier.process.forked_step import run_step
from minifier.reduction.probe.children import ChildEnd, Limits, run_children, tell
from minifier.repro.source.run_source import run_source

pytestmark = pytest.mark.timeout(60)
MIB = 2**20


def children() -> list[int]:
    """The process ids of this process's children, those that have ended and were not waited for included."""
    return sorted(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


@pytest.fixture
def run(tmp_path, processes):
    """`run(*jobs, seconds=, memory=)`; afterwards no child, no file and no descriptor may be left."""

    def go(*jobs, seconds=20.0, memory=None):
        before, children_before = set(os.listdir("/proc/self/fd")), children()
        ended = run_children(jobs, Limits(seconds, memory), tmp_path)
        assert set(os.listdir("/proc/self/fd")) == before, "descriptors were left open"
        assert [path.name for path in tmp_path.iterdir() if path.name != "compiled"] == [], "files were left"
        assert children() == children_before, "a child was left, alive or not"
        return ended

    return go


def one(ended) -> ChildEnd:
    (only,) = ended
    return only


def wait_for_the_end_of(pid):
    wait_until(lambda: not is_alive(pid), f"process {pid} has ended")


def test_what_the_job_gives_comes_back(run):
    ended = one(run(lambda: {"status": "pass", "more": [1, None, "é"]}))
    assert ended.result == {"status": "pass", "more": [1, None, "é"]}
    assert (ended.signal, ended.status, ended.timed_out, ended.fault) == (None, 0, False, "")


def test_what_is_compiled_for_one_is_there_for_all_but_for_what_the_dead_leave(tmp_path, processes):
    def compiles(name):
        (folder := Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "ab")).mkdir(parents=True, exist_ok=True)
        (folder / f"c{name}.so").touch()
        return {"status": "pass"} if name < 3 else os.kill(os.getpid(), signal.SIGKILL)

    def there():
        return {
            "status": "pass",
            "there": sorted(p.name for p in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).glob("*/*")),
        }

    run_children([lambda: compiles(1), lambda: compiles(2), lambda: compiles(3)], Limits(20.0), tmp_path)
    assert [end.result["there"] for end in run_children([there] * 2, Limits(20.0), tmp_path)] == [
        ["c1.so", "c2.so"]
    ] * 2


def test_an_exception_is_a_fault_of_the_job(run):
    def job():
        raise KeyError("lost")

    ended = one(run(job))
    assert ended.result is None and ended.fault.endswith("KeyError: 'lost'\n") and "in job" in ended.fault


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGBUS, signal.SIGINT])
def test_a_death_by_signal_is_told(run, number):
    def job():
        tell(stage="run")
        os.kill(os.getpid(), number)
        signal.pause()

    ended = one(run(job))
    assert (ended.signal, ended.status, ended.result, ended.stage) == (number, None, None, "run")


def test_a_hang_ends_at_the_limit_with_all_its_descendants(run, tmp_path_factory):
    note = tmp_path_factory.mktemp("note") / "pid"

    def job():
        child = subprocess.Popen(["sleep", "inf"])
        note.write_text(str(child.pid))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()

    ended = one(run(job, seconds=1.0))
    assert ended.timed_out and ended.result is None
    wait_for_the_end_of(int(note.read_text()))


def test_memory_beyond_the_limit_is_a_memory_error(run):
    def job():
        try:
            bytearray(512 * MIB)
        except MemoryError:
            return {"status": "refused"}
        return {"status": "granted"}

    assert one(run(job, memory=128 * MIB)).result == {"status": "refused"}
    assert one(run(job, memory=2048 * MIB)).result == {"status": "granted"}
    assert one(run(job)).result == {"status": "granted"}


def test_the_end_of_what_is_printed_is_kept(run, capfd):
    def job():
        os.write(1, b"x" * MIB)
        os.write(2, b"to standard error, too\n")
        os.write(1, b"the last words\n")
        return {"status": "pass"}

    ended = one(run(job))
    assert ended.result == {"status": "pass"} and len(ended.output) <= 4000
    assert ended.output.endswith("xto standard error, too\nthe last words\n")
    assert capfd.readouterr() == ("", "")


def test_input_is_empty_and_temporary_files_go_away(run):
    import tempfile

    def job():
        assert os.read(0, 10) == b""
        with open(tempfile.mkstemp()[1], "w") as file:
            file.write("left behind")
        open("in the working folder", "w").close()
        return {"here": os.getcwd(), "there": tempfile.gettempdir(), "variable": os.environ["TMPDIR"]}

    result = one(run(job)).result
    assert result["here"] == result["there"] == result["variable"] and not os.path.exists(result["here"])


def test_a_child_is_alone_in_its_session_and_changes_nothing_here(run):
    def job():
        os.environ["MARK"] = "child"
        sys.path.append("child")
        return {"session": os.getsid(0), "pid": os.getpid(), "group": os.getpgid(0)}

    result = one(run(job)).result
    assert result["session"] == result["pid"] == result["group"] != os.getpid()
    assert "MARK" not in os.environ and "child" not in sys.path


@pytest.mark.usefixtures("processes")
def test_an_interrupt_while_waiting_leaves_no_child(tmp_path):
    note = tmp_path / "pids"
    note.touch()
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def job():
        with note.open("a") as file:
            file.write(f"{os.getpid()}\n")
        signal.pause()

    def tick():
        if note.read_text().count("\n") == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_children([job, job], Limits(50), scratch, tick)
    assert not any(is_alive(int(line)) for line in note.read_text().split())
    assert [p.name for p in scratch.iterdir() if p.name != "compiled"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_handlers_of_the_tool_are_not_for_the_users_code(forked, tmp_path, number):
    def work():
        def deadly():
            os.kill(os.getpid(), number)
            signal.pause()

        signal.signal(number, lambda number, _: sys.exit(128 + number))
        (ended,) = run_children([deadly], Limits(20.0), tmp_path)
        stage = run_step(deadly)
        signal.signal(number, signal.SIG_IGN)
        (deaf,) = run_children(
            [lambda: {"ignored": signal.getsignal(number) is signal.SIG_IGN}], Limits(20.0), tmp_path
        )
        return ended.signal, stage.signal, deaf.result

    assert forked(work) == (number, number, {"ignored": True})


def test_a_job_that_closes_the_first_files_still_answers(run):
    def job():
        tell(stage="run")
        os.closerange(0, 40)
        return {"status": "pass"}

    ended = one(run(job))
    assert (ended.result, ended.stage) == ({"status": "pass"}, "run")


ROOM = """
import os


def dive(frames):
    try:
        return dive(frames + 1)
    except RecursionError:
        return frames


def open_files():
    held = []
    try:
        while len(held) < 1000:
            held.append(os.dup(2))
    except OSError:
        return len(held)
    finally:
        for file in held:
            os.close(file)


found = dive(0), open_files()
"""


def as_a_job():
    names = {}
    exec(ROOM, names)
    return {"found": names["found"]}


def as_a_script():
    (link,) = run_source(f"{ROOM}\nraise ValueError(*found)")["links"]
    return {"found": ast.literal_eval(link["message"])}


@pytest.mark.parametrize("job", [as_a_job, as_a_script])
def test_a_job_has_the_frames_and_files_that_a_script_has(forked, tmp_path, job):
    def work():
        limit = len(os.listdir("/proc/self/fd")) + 200  # the test process may have many open
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        held = [os.dup(2) for _ in range(50)]
        script = subprocess.run([sys.executable, "-c", f"{ROOM}\nprint(found)"], capture_output=True, check=True)
        (ended,) = run_children([job], Limits(20.0), tmp_path)
        return len(held), ast.literal_eval(script.stdout.decode()), ended.result["found"]

    held, of_script, of_job = forked(work)
    assert all(own <= found < own + held for own, found in zip(of_script, of_job, strict=True)), (of_script, of_job)
