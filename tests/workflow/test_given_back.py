"""What a run takes from the process that it runs in, it gives back: the process may be the user's own."""

import gc
import os
import subprocess
import sys
import threading

import pytest

from minifier.data.settings import Settings
from minifier.flow.prepare import prepared
from minifier.process.child import Child, supervise
from minifier.process.descendants import kill_orphans, orphans_adopted
from minifier.process.interpreters import Interpreters
from minifier.process.interrupts import uninterrupted
from minifier.process.progress import SILENT
from minifier.reduction.probe.children import Limits, run_children

pytestmark = pytest.mark.timeout(100)


@pytest.mark.parametrize("frozen", [False, True])
def test_the_garbage_collector_is_as_before(frozen, forked, tmp_path):
    def work():
        gc.unfreeze()
        if frozen:
            gc.freeze()
        before = gc.get_freeze_count()  # gets less where a frozen object is deallocated
        with prepared(Settings(verify=1), SILENT, Interpreters()):
            within = gc.get_freeze_count()
            (end,) = run_children([lambda: {"frozen": gc.get_freeze_count()}], Limits(60), tmp_path)
            assert gc.get_freeze_count() <= within
            assert end.result["frozen"] > within
        assert before / 2 <= gc.get_freeze_count() <= before and gc.isenabled()

    forked(work)


CACHES = """
import os
from minifier.data.settings import Settings
from minifier.flow.prepare import prepared
from minifier.process.interpreters import Interpreters
from minifier.process.progress import SILENT

with prepared(Settings(verify=1), SILENT, Interpreters()):
    from minifier.torch_side.torch_private.inductor import inductor_cache, inductor_folder
    print(inductor_cache(), inductor_folder(), os.environ.get("TORCHINDUCTOR_CACHE_DIR"), sep="\\n")
"""


@pytest.mark.usefixtures("processes")
def test_inductors_cache_is_the_users_and_not_that_of_the_run(tmp_path):
    """Torch notes the folder in the environment when it is imported, in a temporary folder of the run."""
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    command = [sys.executable, "-c", CACHES]
    done = subprocess.run(command, env={**environment, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, check=True)
    cache, folder, noted = done.stdout.decode().split()
    assert cache == folder and folder.startswith(f"{tmp_path}/torchinductor_") and noted in (folder, "None")


DAEMON = """
import subprocess, sys
print(subprocess.Popen(["sleep", "100"], start_new_session=True).pid, file=open(sys.argv[1], "w"))
"""


def exists(pid):
    return os.path.exists(f"/proc/{pid}")


def daemon(pid_file):
    """Start a process that outlives its parent, and write its number."""
    pid_file.write_text(str(subprocess.Popen(["sleep", "100"], start_new_session=True).pid))
    os._exit(0)


@pytest.mark.parametrize("launched", [False, True])
def test_orphans_of_a_child_are_killed_and_children_of_the_user_are_not(launched, forked, tmp_path):
    def work():
        own, pid_file = [], tmp_path / "pid"

        def start():
            own.append(subprocess.Popen(["sleep", "100"], start_new_session=True))

        start()
        with orphans_adopted():
            thread = threading.Thread(target=start)  # the main thread inherits its child
            thread.start()
            thread.join()
            start()
            if launched:
                child = Child.launched([sys.executable, "-c", DAEMON, str(pid_file)])
            else:
                with uninterrupted():
                    child = Child.forked(lambda: daemon(pid_file))
            supervise([child])
            orphan = int(pid_file.read_text())
            assert exists(orphan)
            kill_orphans()
            assert not exists(orphan)
        alive = [process.poll() is None for process in own]
        for process in own:
            process.kill()
        return alive

    assert forked(work) == [True, True, True]
