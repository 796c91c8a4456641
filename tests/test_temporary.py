"""The temporary folder of a run: one place, removed by the next run if its owner died."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from clock import wait_until

from minifier.process.temporary import hold, is_held, release, remove_dead, temporary_folder

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def usual(tmp_path, monkeypatch):
    """The user's temporary folder."""
    place = tmp_path / "usual"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_everything_temporary_is_in_one_place(usual, tmp_path):
    with temporary_folder() as folder:
        assert Path(tempfile.mkdtemp()).parent == folder.path and folder.path.parent == usual
        with folder.usual_folder():
            assert Path(tempfile.gettempdir()) == usual
    assert tempfile.gettempdir() == str(usual)
    assert list(usual.iterdir()) == []


@pytest.mark.usefixtures("processes")
def test_the_folder_of_a_killed_run_is_removed_by_the_next(usual):
    pid = os.fork()
    if pid == 0:
        with temporary_folder() as folder:
            (folder.path / "values.bin").write_bytes(b"0" * 100)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    (dead,) = usual.iterdir()
    assert (dead / "values.bin").exists()
    with temporary_folder() as folder:
        assert list(usual.iterdir()) == [folder.path]


@pytest.mark.usefixtures("processes")
def test_a_fork_leaves_the_folder_and_does_not_own_it(usual):
    with temporary_folder() as folder:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        remove_dead(usual.iterdir())
        assert folder.path.exists()


def test_what_no_run_made_is_left_alone(tmp_path):
    own = tmp_path / "minify-run-own"
    own.mkdir()
    (own / "letters.txt").touch()
    other = tmp_path / "documents"
    other.mkdir()
    (other / "owner").touch()
    link = tmp_path / "minify-run-link"
    link.symlink_to(other)
    fresh = tmp_path / "minify-run-fresh"
    fresh.mkdir()
    remove_dead([own, other, link, fresh, tmp_path / "missing"])
    assert (own / "letters.txt").exists() and (other / "owner").exists() and link.is_symlink() and fresh.exists()
    os.utime(fresh, (fresh.stat().st_mtime - 3600,) * 2)
    remove_dead([fresh])
    assert not fresh.exists()


# Locks that end with the process that holds them.

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
