"""Interpreters that are started ahead of the script that they run."""

import os
import signal
import textwrap
from pathlib import Path

import pytest
from clock import is_alive, wait_until

from minifier.data.failure import Fingerprint, Kind, Stage
from minifier.process.descriptors import close_for_scripts
from minifier.process.interpreters import Interpreters
from minifier.process.machine import cores
from minifier.repro.verify import Conditions, verify

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(cores() == 1, reason="one core: none is started"),
    pytest.mark.usefixtures("processes"),
]

RAISES = """
import sys
import torch
assert "torch._dynamo" in sys.modules, "not started ahead"
raise ValueError("as it is sought")
"""


@pytest.fixture
def interpreters():
    made = Interpreters()
    yield made
    made.end_ahead()
    assert not made.waiting


def start_ahead(interpreters: Interpreters) -> None:
    interpreters.want_ahead(1)
    interpreters.start_ahead()
    assert interpreters.waiting


def script_in(folder: Path, text: str) -> Path:
    path = folder / "repro.py"
    path.write_text(textwrap.dedent(text).lstrip())
    return path


def verified(script: Path, interpreters: Interpreters, more=(), **options):
    """Two runs, the second of them in an interpreter that was started ahead if there is one for it."""
    sought = Fingerprint(Stage.RUN, Kind.EXCEPTION)
    conditions = Conditions(
        sought, timeout=60, more=more, any_stage=True, match="as it is sought", interpreters=interpreters, **options
    )
    return verify(script, conditions, runs=2)


@pytest.mark.parametrize("more", [None, pytest.param((), marks=pytest.mark.soak)])
def test_it_runs_the_script_as_python_does(tmp_path, monkeypatch, interpreters, more):
    """Everything that a script can see of its interpreter, but for the modules that are there already."""
    monkeypatch.setenv("SETTING_OF_THE_SCRIPT", "1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    module = tmp_path / "elsewhere"
    module.mkdir()
    (module / "beside.py").write_text("HERE = __file__")
    text = """
        import torch
        import beside, os, sys
        print(__name__, sys.argv, os.path.basename(__file__), os.listdir("."), sys.stdin.read() == "", file=sys.stderr)
        print([entry for entry in sys.path if "observer" in entry], len(os.listdir("/proc/self/fd")), file=sys.stderr)
        print(sorted(os.environ), file=sys.stderr)
        print(os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] == os.path.dirname(beside.HERE), file=sys.stderr)
        raise ValueError("as it is sought")
    """
    script = script_in(tmp_path, text)
    start_ahead(interpreters)
    found = verified(script, interpreters, more, extra_path=[str(module)])
    assert not interpreters.waiting
    cold, ahead = (run.output.partition("Traceback")[0] for run in found.runs)
    assert cold == ahead and "__main__ ['repro.py'] repro.py ['repro.py'] True" in cold and cold.endswith("True\n")
    assert ("SETTING_OF_THE_SCRIPT" in cold) is (more is None)


def test_one_for_which_a_library_is_set_up_is_started_anew(tmp_path, monkeypatch, interpreters):
    """OpenMP has read its variables where torch is imported already."""
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    start_ahead(interpreters)
    verified(script_in(tmp_path, RAISES), interpreters, more=None)
    assert interpreters.waiting


def test_the_first_run_is_of_an_interpreter_that_was_not(tmp_path, interpreters):
    start_ahead(interpreters)
    found = verified(script_in(tmp_path, RAISES), interpreters)
    assert "not started ahead" in found.runs[0].output
    assert not found.holds


def test_what_one_that_was_not_shows_counts(tmp_path, interpreters):
    """A script that fails only where torch comes new: it is run again where it did not."""
    text = """
        import sys
        started_ahead = "torch._dynamo" in sys.modules
        import torch
        if not started_ahead:
            raise ValueError("as it is sought")
        """
    start_ahead(interpreters)
    found = verified(script_in(tmp_path, text), interpreters)
    assert found.holds and len(found.runs) == 2


def test_a_script_that_sets_variables_first_gets_none(tmp_path, interpreters):
    text = 'import os\n\nos.environ["TORCH_LOGS"] = "x"\nimport torch\n'
    start_ahead(interpreters)
    assert interpreters.take_ahead(script_in(tmp_path, text)) is None and interpreters.waiting


def test_one_that_has_died_is_not_taken(tmp_path, interpreters):
    start_ahead(interpreters)
    os.kill(interpreters.waiting[0].child.pid, signal.SIGKILL)
    interpreters.waiting[0].child.wait()
    assert interpreters.take_ahead(script_in(tmp_path, RAISES)) is None and not interpreters.waiting


def test_it_ends_with_who_started_it(tmp_path, interpreters):
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.close(read)
        start_ahead(interpreters)
        os.write(write, str(interpreters.waiting[0].child.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    waiting = int(os.read(read, 100))
    os.waitpid(parent, 0)
    wait_until(lambda: not is_alive(waiting))


def test_no_more_are_started_than_are_wanted(interpreters):
    interpreters.want_ahead(1)
    for _ in range(3):
        interpreters.start_ahead()
    assert len(interpreters.waiting) == 1
    interpreters.end_ahead()
    interpreters.start_ahead()
    assert not interpreters.waiting


def test_the_script_of_the_user_does_not_hold_it(tmp_path, interpreters):
    """A daemon that the script starts would keep the waiting interpreters alive for ever."""
    start_ahead(interpreters)
    number = interpreters.waiting[0].word.file
    pid = os.fork()
    if pid == 0:
        close_for_scripts()
        try:
            os.fstat(number)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0 and os.fstat(number)
