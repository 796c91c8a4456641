"""Locks that end with the process that holds them."""

import os
import signal
import subprocess
import sys

import pytest
from clock import wait_until

from minifier.process.temporary import hold, is_held, release

HOLDS = "import sys; from pathlib import Path; from minifier.process.temporary import hold; hold(Path(sys.argv[1]));"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "status").write_text("")
    return tmp_path / "status"


def test_a_lock_is_held_until_it_is_released(path):
    assert not is_held(path) and not is_held(path.with_name("missing"))
    locks = [hold(path), hold(path)]
    assert is_held(path)
    path.read_text()
    release(locks[0])
    assert is_held(path)
    release(locks[1])
    assert not is_held(path)


def test_a_file_that_has_taken_the_descriptor_stays_open(path):
    lock = hold(path)
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, lock)
    release(lock)
    os.close(lock)  # it is open
    os.close(other)


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("goes_on", ["if os.fork() == 0: signal.pause()", "subprocess.Popen(['sleep', 'inf'])"])
def test_nothing_that_a_killed_process_started_keeps_its_lock(path, goes_on):
    code = f"{HOLDS} import os, signal, subprocess\n{goes_on}\nprint(1, flush=True)\nsignal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        assert is_held(path)
        process.kill()
        wait_until(lambda: not is_held(path))
        os.killpg(process.pid, signal.SIGKILL)  # what it had started is still there
