"""`minifier.run`: a run from Python."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile

import pytest
from forked_script import forked_interpreters
from torch.utils import collect_env
from vocabulary import Lines, in_child
from warm_command import warm_python

import minifier
from minifier.data.case.store import load
from minifier.data.settings import Settings
from minifier.errors import NothingToReduce, UsageError
from minifier.flow.folders import is_running

pytestmark = pytest.mark.timeout(200)

SCRIPT = """
import torch
import acme


def f(x):
    return torch.{op}(torch.sin(x))


print(torch.compile(f, backend="acme")(torch.randn(2, 3)).shape)
"""

BACKEND = """
from torch._dynamo import register_backend


@register_backend
def acme(gm, inputs):
    if any(node.target is not None and "tanh" in str(node.target) for node in gm.graph.nodes):
        raise RuntimeError("no lowering for tanh")
    return gm.forward
"""


@pytest.fixture
def scripts(tmp_path):
    """`scripts(op)` writes a script with this op, and the module of its backend, which refuses `tanh`."""

    def write(op):
        path = tmp_path / f"{op}.py"
        path.write_text(SCRIPT.format(op=op))
        path.with_name("acme.py").write_text(BACKEND)
        return path

    return write


def process_state():
    """What a run must leave as it was: open files, the temporary folder, signals, the collector, adopted orphans."""
    is_adopter = ctypes.c_int()
    ctypes.CDLL(None).prctl(37, ctypes.byref(is_adopter))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    collector = gc.isenabled(), gc.get_freeze_count()
    return len(os.listdir("/proc/self/fd")), tempfile.gettempdir(), handlers, collector, is_adopter.value


@pytest.mark.usefixtures("processes")
def test_two_runs_in_one_process(scripts, tmp_path):
    def work():
        collect_env.get_pretty_env_info = lambda: ""  # it takes seconds
        os.chdir(tmp_path)
        gc.unfreeze()
        gc.disable()
        before, said, outcomes, own = process_state(), [], [], []
        for script in (scripts("tanh"), scripts("tanh")):
            ui = Lines()
            outcomes.append(minifier.run(script, Settings(verify=1), ui, interpreters=forked_interpreters()))
            said.append(ui.lines)
            own.append(subprocess.Popen(["sleep", "100"]))  # the user's, which a run leaves alone
            assert process_state() == before
            assert not is_running(outcomes[-1].folder)
            state = load(outcomes[-1].folder / "case").state
            assert "ACME" not in dict(state.environment)  # it was set by the process, not by the script
            os.environ["ACME"] = str(len(own))
        with pytest.raises(NothingToReduce):
            minifier.run(str(scripts("cos")))
        assert process_state() == before and "acme" not in sys.modules
        assert [process.poll() for process in own] == [None, None]
        for process in own:
            process.kill()
        return [(each.status.value, str(each.folder), each.verified, each.repro.text) for each in outcomes], said

    runs, said = in_child(work, tmp_path, 190)
    assert [run[:3] for run in runs] == [
        ("reduced", str(tmp_path / "minify-out" / f"tanh-{n}"), (1, 1)) for n in (1, 2)
    ]
    assert len({run[3] for run in runs}) == 1 and "return torch.tanh(x)" in runs[0][3]
    assert said[0] == said[1]


@pytest.mark.usefixtures("processes")
def test_nothing_of_a_hunt_is_imported_for_a_run(tmp_path):
    source = "import sys, minifier.flow.run as run; print(*sys.modules)"
    done = warm_python("-c", source, folder=tmp_path, environment={"PATH": os.defpath})
    assert "minifier.flow.run" in done.stdout.split(), done.stderr
    assert not [name for name in done.stdout.split() if name.startswith(("minifier.flow.hunt", "ray"))]


def test_a_folder_that_is_not_empty_is_refused_before_anything_runs(scripts, tmp_path):
    ui = Lines()
    ui.show = None  # nothing is to be started
    with pytest.raises(UsageError):
        minifier.run(scripts("tanh"), Settings(verify=1), ui, out=tmp_path)
