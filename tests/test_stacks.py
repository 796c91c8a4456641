"""The stack of a process that dies or hangs."""

import ctypes
import faulthandler
import os
import signal
import threading

import pytest
from clock import wait_until

from minifier.errors import MinifyError
from minifier.process.descriptors import ASK, read_stack, stack_file
from minifier.process.forked_step import run_step

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("processes")]


def child(work):
    """(process id) of a child that does this with the standard handlers."""
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.disable()
            signal.signal(signal.SIGABRT, signal.SIG_DFL)
            work()
        finally:
            os._exit(0)
    return pid


def deep(path, act):
    stack_file(path)
    act()


@pytest.mark.parametrize(("act", "number"), [(lambda: ctypes.string_at(0), signal.SIGSEGV), (os.abort, signal.SIGABRT)])
def test_a_fatal_signal_leaves_the_stack(tmp_path, act, number):
    path = tmp_path / "stacks"
    _, code = os.waitpid(child(lambda: deep(path, act)), 0)
    assert os.WIFSIGNALED(code) and os.WTERMSIG(code) == number, "the process dies as it would"
    text = read_stack(path)
    assert text.startswith("Stack (most recent call last):\n") and "in deep\n    act()\n" in text
    assert text.index("in child") < text.index("in deep")


def test_a_process_can_be_asked_and_lives_on(tmp_path):
    path, (read_end, write_end) = tmp_path / "stacks", os.pipe()

    def waits():
        (tmp_path / "waits").touch()
        os.read(read_end, 1)
        (tmp_path / "alive").touch()

    pid = child(lambda: deep(path, waits))
    wait_until((tmp_path / "waits").exists)
    os.kill(pid, ASK)
    wait_until(lambda: "in waits" in read_stack(path))
    os.write(write_end, b"!")
    os.waitpid(pid, 0)
    assert (tmp_path / "alive").exists()


def test_the_thread_can_be_named(tmp_path):
    path, pipe, begun = tmp_path / "stacks", os.pipe(), threading.Event()

    def elsewhere():
        os.write(pipe[1], str(threading.get_ident()).encode())
        begun.set()
        threading.Event().wait()

    def work():
        threading.Thread(target=elsewhere, daemon=True).start()
        begun.wait()
        os.abort()

    os.waitpid(child(lambda: deep(path, work)), 0)
    thread = int(os.read(pipe[0], 100))
    assert "in elsewhere" in read_stack(path, thread) and "in work" in read_stack(path)
    assert read_stack(path, thread, dying=True) == ""


def test_a_child_of_the_process_writes_nothing(tmp_path):
    path = tmp_path / "stacks"

    def forks():
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        os.waitpid(pid, 0)

    os.waitpid(child(lambda: deep(path, forks)), 0)
    assert path.read_text() == "" and read_stack(path) == ""


def test_a_faulthandler_of_the_users_stays(tmp_path):
    path, own = tmp_path / "stacks", tmp_path / "own"

    def work():
        with own.open("w") as file:
            faulthandler.enable(file)
            deep(path, os.abort)

    os.waitpid(child(work), 0)
    assert "in deep" in own.read_text() and read_stack(path) == ""


def test_a_file_of_the_users_with_our_number_is_not_written_to(tmp_path):
    path, own = tmp_path / "stacks", tmp_path / "own"

    def work():
        os.closerange(3, 2000)
        os.open(own, os.O_WRONLY | os.O_CREAT)
        os.abort()

    _, code = os.waitpid(child(lambda: deep(path, work)), 0)
    assert os.WTERMSIG(code) == signal.SIGABRT and own.read_text() == ""


def test_no_file_no_stack(tmp_path):
    assert read_stack(tmp_path / "never") == ""


def test_a_fault_of_a_step_comes_back_as_text():
    def work():
        os.closerange(3, 2000)
        raise ValueError("of this tool")

    with pytest.raises(MinifyError, match="ValueError: of this tool"):
        run_step(work)
    assert run_step(lambda: 5).status == 5


def test_a_step_can_be_looked_at_and_ended():
    looks = []

    def look(running):
        looks.append(running[0].pid)
        if len(looks) == 2:
            running[0].stop()

    def work():
        signal.pause()
        return 0

    end = run_step(work, looks=[look])
    assert end.signal == signal.SIGKILL and len(set(looks)) == 1
