"""Interpreters that are started ahead of the script that they run."""

import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from minifier.failure import Fingerprint, Kind, Stage
from minifier.process import interpreters
from minifier.process.descriptors import close_for_scripts
from minifier.process.interpreters import end_ahead, take_ahead, want_ahead
from minifier.verify import Conditions, verify

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.cpu_count() == 1, reason="one core: none is started"),
    pytest.mark.usefixtures("processes"),
]

RAISES = """
import sys
import torch
assert "torch._dynamo" in sys.modules, "not started ahead"
raise ValueError("as it is sought")
"""


def start_ahead() -> None:
    want_ahead(1)
    interpreters.start_ahead()
    assert has_ahead()


def has_ahead() -> bool:
    return bool(interpreters._waiting)


@pytest.fixture(autouse=True)
def _none_left():
    yield
    end_ahead()
    assert not has_ahead()


def script_in(folder: Path, text: str) -> Path:
    path = folder / "repro.py"
    path.write_text(textwrap.dedent(text).lstrip())
    return path


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def verified(script: Path, **options):
    """Two runs, the second of them in an interpreter that was started ahead if there is one for it."""
    sought = Fingerprint(Stage.RUN, Kind.EXCEPTION)
    conditions = Conditions(sought, timeout=60, more=(), any_stage=True, match="as it is sought", **options)
    return verify(script, conditions, runs=2)


def test_it_runs_the_script_as_python_does(tmp_path):
    """Everything that a script can see of its interpreter, but for the modules that are there already."""
    module = tmp_path / "elsewhere"
    module.mkdir()
    (module / "beside.py").write_text("HERE = __file__")
    script = script_in(
        tmp_path,
        """
        import torch
        import beside, os, sys
        print(__name__, sys.argv, os.path.basename(__file__), os.listdir("."), sys.stdin.read() == "", file=sys.stderr)
        print([entry for entry in sys.path if "observer" in entry], len(os.listdir("/proc/self/fd")), file=sys.stderr)
        print(os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] == os.path.dirname(beside.HERE), file=sys.stderr)
        raise ValueError("as it is sought")
        """,
    )
    start_ahead()
    found = verified(script, extra_path=[str(module)])
    assert not has_ahead()
    cold, ahead = (run.output.partition("Traceback")[0] for run in found.runs)
    assert cold == ahead and "__main__ ['repro.py'] repro.py ['repro.py'] True" in cold and cold.endswith("True\n")


def test_the_first_run_is_of_an_interpreter_that_was_not(tmp_path):
    start_ahead()
    found = verified(script_in(tmp_path, RAISES))
    assert "not started ahead" in found.runs[0].output
    assert not found.holds


def test_what_one_that_was_not_shows_counts(tmp_path):
    """A script that fails only where torch comes new: it is run again where it did not."""
    text = """
        import sys
        started_ahead = "torch._dynamo" in sys.modules
        import torch
        if not started_ahead:
            raise ValueError("as it is sought")
        """
    start_ahead()
    found = verified(script_in(tmp_path, text))
    assert found.holds and len(found.runs) == 2


def test_a_script_that_sets_variables_first_gets_none(tmp_path):
    text = 'import os\n\nos.environ["TORCH_LOGS"] = "x"\nimport torch\n'
    start_ahead()
    assert take_ahead(script_in(tmp_path, text)) is None and has_ahead()


def test_one_that_has_died_is_not_taken(tmp_path):
    start_ahead()
    os.kill(interpreters._waiting[0].child.pid, signal.SIGKILL)
    interpreters._waiting[0].child.wait()
    assert take_ahead(script_in(tmp_path, RAISES)) is None and not has_ahead()


def test_it_ends_with_who_started_it(tmp_path):
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.close(read)
        start_ahead()
        os.write(write, str(interpreters._waiting[0].child.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    waiting = int(os.read(read, 100))
    os.waitpid(parent, 0)
    until = time.monotonic() + 60
    while is_there(waiting) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_there(waiting)


def test_no_more_are_started_than_are_wanted():
    want_ahead(1)
    for _ in range(3):
        interpreters.start_ahead()
    assert len(interpreters._waiting) == 1
    end_ahead()
    interpreters.start_ahead()
    assert not has_ahead()


def test_the_script_of_the_user_does_not_hold_it(tmp_path):
    """A daemon that the script starts would keep the waiting interpreters alive for ever."""
    start_ahead()
    number = interpreters._waiting[0].word
    pid = os.fork()
    if pid == 0:
        close_for_scripts()
        try:
            os.fstat(number)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0 and os.fstat(number)
