"""Accidents from outside, in each phase: signals, full disks, missing folders, limits, an odd environment."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aftermath import Ended, World
from clock import state_of
from layers import sampled
from vocabulary import Held, Project

pytestmark = [pytest.mark.timeout(280), pytest.mark.usefixtures("processes")]

SLOW = """
import torch
import oddlib
from oddlib.held import hold


def slow(gm, inputs):
    hold()
    return oddlib.backends.oddlib_tanh(gm, inputs)


with torch.no_grad():
    torch.compile(lambda x: torch.tanh((x.sin() + 1).cos() * 2).cos(), backend=slow)(torch.randn(8, 8))
"""
PHASES = {
    "loading": "minify: loading torch",
    "script": "minify: running failing.py",
    "reducing": "minify: reducing",
    "verifying": "minify: verifying the repro",
    "reports": "minify: writing the reports",
}
NOBODY = 65534


def finished(project: Project, out: Path | str | None, script: str = SLOW, **options) -> Ended:
    """A run that has ended; its results are in `out`, or in a folder beside the script."""
    project.write(script)
    given = () if out is None else ("--out", out)
    return World(project).run("run", "--verify", "1", *given, "failing.py", **options)


def started(project: Project, phase: str, **options):
    """A command that has come to a phase, and its world. In the script and in the reduction it waits there."""
    world = World(project)
    script = project.write(SLOW)
    if phase in ("script", "reducing"):
        held = Held(project, "\n", 1) if phase == "reducing" else Held(project, "", 0, script)
        options["environment"] = held.environment
    process = world.start("run", "--verify", "1", "--out", project.out, "failing.py", **options)
    world.wait_for(lambda: PHASES[phase] in world.said, process)
    if phase in ("script", "reducing"):
        held.wait(process)
        held.release()
    return world, process


@pytest.mark.parametrize(
    ("phase", "number"), sampled([(phase, n) for phase in PHASES for n in (signal.SIGTERM, signal.SIGHUP)], 7)
)
def test_a_signal_ends_the_run_with_nothing_left(project: Project, phase: str, number: int):
    world, process = started(project, phase)
    process.send_signal(number)
    ended = world.finish(process)
    assert ended.code in (128 + number, 0 if phase == "reports" else 128 + number), ended.err
    assert ended.left == ()


@pytest.mark.soak
def test_children_of_a_stopped_main_process_end_while_nobody_looks(project: Project):
    world, process = started(project, "loading")
    process.send_signal(signal.SIGSTOP)
    world.wait_for(lambda: state_of(process.pid) == "T", process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    world.wait_for(lambda: all(state_of(int(pid)) == "Z" for pid in children.read_text().split()), process)
    process.send_signal(signal.SIGCONT)
    ended = world.finish(process)
    assert (ended.code, ended.left) == (0, ()), ended.err


def in_own_mounts(folder: Path) -> list[str] | None:
    """The command before one that may mount what nobody else sees; None where that is not permitted. It is tried on
    the folder."""
    tool = shutil.which("unshare")
    for more in ([], ["--user", "--map-root-user"]):
        command = [tool or "", *more, "--mount"]
        mount = [*command, "mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
        if tool and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            return command
    return None


def on_a_small_disk(project: Project, place: Path, size: str, fill: bool, script: str = SLOW) -> Ended:
    """A run for which a folder is a disk of this size, full or not."""
    before = in_own_mounts(project.temporary)
    if before is None:
        pytest.skip("this machine lets nobody mount a small file system")
    place.mkdir(exist_ok=True)
    command = f"mount -t tmpfs -o size={size} none {place} && "
    command += f"{{ dd if=/dev/zero of={place}/user-full bs=4k 2>&-; true; }} && " if fill else ""
    prefix = (*before, "bash", "-c", command + 'exec "$@"', "bash")
    return finished(project, project.out / "here" if fill else project.out, script, prefix=prefix)


def test_a_full_disk(project: Project):
    ended = on_a_small_disk(project, project.out, "64k", False)
    assert ended.code in (4, 5) and ended.left == (), ended.err
    assert "No space left on device" in ended.err and "minifier/" not in ended.err, ended.err
    assert "attach it to a report" not in ended.err


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("size", ["16k", "64k", "200k", "1m"])
def test_a_disk_of_temporary_files_that_fills(project: Project, size: str):
    ended = on_a_small_disk(project, project.temporary, size, False)
    assert ended.code in (0, 4, 5) and ended.left == (), ended.err
    assert "attach it to a report" not in ended.err
    assert ended.code == 0 or "No space left on device" in ended.err, ended.err


LARGE = """
import torch


def refuse(gm, inputs):
    def run(*args):
        if any(node.target is torch.tanh for node in gm.graph.nodes):
            raise LookupError("no tanh")
        return gm.forward(*args)

    return run


with torch.no_grad():
    torch.compile(lambda x: torch.tanh((x.sin() + 1).cos() * 2).cos(), backend=refuse)(torch.randn(512, 512))
"""


@pytest.mark.usefixtures("soak")
def test_values_that_do_not_fit_are_left_out(project: Project):
    """Each takes 1 MiB."""
    ended = on_a_small_disk(project, project.temporary, "6m", False, LARGE)
    assert (ended.code, ended.left) == (0, ()), ended.err
    assert "not kept" in ended.err and "half of the free space" in ended.err


@pytest.mark.usefixtures("soak")
def test_a_disk_for_temporary_files_that_is_full_from_the_beginning(project: Project):
    """Python takes another folder for temporary files then."""
    ended = on_a_small_disk(project, project.temporary, "64k", True)
    assert (ended.code, ended.left) == (0, ()), ended.err


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("phase", ["script", "reducing", "verifying"])
@pytest.mark.parametrize("place", ["out", "temporary", "folder"])
def test_a_folder_that_is_removed_halfway(project: Project, phase: str, place: str):
    world, process = started(project, phase)
    shutil.rmtree(getattr(project, place), ignore_errors=True)
    ended = world.finish(process)
    gone = (1,) if (place, phase) == ("folder", "script") else ()  # it may not have been read by then
    assert ended.code in (0, 4, 5, *gone), ended.err
    assert "attach it to a report" not in ended.err and ended.left == (), ended.err


def as_somebody(project: Project) -> dict[str, object]:
    """Options of a process that is not root, in folders that it may use."""
    if os.geteuid() != 0:
        return {}
    for place in (project.root, project.folder, project.temporary):
        place.chmod(0o777)
    for parent in (*project.root.parents, *Path(sys.executable).parents, *Path(sys.executable).resolve().parents):
        if not parent.stat().st_mode & 0o001:
            pytest.skip(f"nobody else may enter {parent}")
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize(("out", "code"), [(None, 2), ("../out", 0)], ids=["default", "elsewhere"])
def test_a_folder_that_cannot_be_written_to(project: Project, out: str | None, code: int):
    """The script is in it, and so is the default folder of the results."""
    before = in_own_mounts(project.temporary)
    if before is None:
        pytest.skip("this machine lets nobody mount a file system")
    place = project.folder
    mount = f'mount --bind {place} {place} && mount -o remount,bind,ro {place} && cd {place} && exec "$@"'
    ended = finished(project, out, prefix=(*before, "bash", "-c", mount, "bash"))
    assert (ended.code, ended.left) == (code, ()), ended.err
    assert code == 0 or "--out" in ended.err


LIMITS = {
    "64 files": (resource.RLIMIT_NOFILE, 64, (0,)),
    "32 files": (resource.RLIMIT_NOFILE, 32, (0, 5)),
    "files of 4 KiB": (resource.RLIMIT_FSIZE, 4096, (4, 5)),
    "8 GiB of addresses": (resource.RLIMIT_AS, 8 * 2**30, (0,)),
    "300 MiB of addresses": (resource.RLIMIT_AS, 300 * 2**20, (2, 4, 5)),
    "no core files": (resource.RLIMIT_CORE, 0, (0,)),
}


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit(project: Project, name: str):
    number, value, codes = LIMITS[name]
    ended = finished(project, project.out, preexec_fn=lambda: resource.setrlimit(number, (value, value)))
    assert ended.code in codes and ended.left == (), ended.err
    assert "attach it to a report" not in ended.err, ended.err


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("most", [1, 3, 40])
def test_a_limit_on_processes(project: Project, most: int):
    """Root has none."""
    options = as_somebody(project)
    if not options:
        pytest.skip("other processes of this user count as well")
    options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    ended = finished(project, project.out, **options)
    assert ended.code in (0, 4, 5) and ended.left == (), ended.err
    assert "attach it to a report" not in ended.err, ended.err


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("home", [None, "/nowhere", "", "/proc"])
def test_a_home_that_is_none(project: Project, home: str | None):
    environment = {"HOME": home, "XDG_CACHE_HOME": None, "USER": None, "LOGNAME": None}
    ended = finished(project, project.out, environment=environment)
    assert (ended.code, ended.left) == (0, ()), ended.err


@pytest.mark.usefixtures("soak")
def test_a_user_without_a_name(project: Project):
    """As in a container that is started with a number."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    options = {**as_somebody(project), "user": 54321, "environment": {"HOME": None, "USER": None, "LOGNAME": None}}
    ended = finished(project, project.out, **options)
    assert (ended.code, ended.left) == (0, ()), ended.err
