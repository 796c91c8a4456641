"""Probes on a real Ray of two workers."""

import importlib.util
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import small_case
from clock import wait_until
from vocabulary import CASES, Held, Project

from minifier.data.case import Script
from minifier.data.case.store import load, pickled, save
from minifier.data.settings import Settings
from minifier.errors import UsageError
from minifier.flow.prepare import prepared
from minifier.process.interpreters import Interpreters
from minifier.process.progress import SILENT
from minifier.reduction.cluster.driver import Actor, packed

pytestmark = pytest.mark.timeout(300)

# Somebody is killed while it is held; wrong values, so that those of an eager run are needed elsewhere too.
BACKEND = """
import torch
from oddlib.held import hold
from torch._dynamo import register_backend


@register_backend
def held_and_wrong(gm, example_inputs):
    hold()
    targets = [getattr(node.target, "__name__", node.target) for node in gm.graph.nodes]
    wrong = "sigmoid" in targets and "cos" in targets
    return lambda *args: [value + 1 if wrong else value for value in gm.forward(*args)]
"""

SCRIPT = """
import torch
import wrong


def fn(x, w):
    a = torch.sin(x) @ w
    b = torch.relu(a).sigmoid()
    for _ in range(6):
        b = torch.tanh(b) * 2 + torch.exp(-b)
    return torch.cos(b).sum(), (b - a).abs().mean()


torch.manual_seed(0)
torch.compile(fn, backend="held_and_wrong")(torch.randn(6, 8), torch.randn(8, 8))
"""


@pytest.fixture
def wrong(project: Project, soak: None) -> Project:
    project.write(BACKEND, "wrong.py")
    project.write(SCRIPT)
    return project


def run(project: Project, name: str, *options: str, lines: int = 0, meanwhile=None):
    """`minify run`, with something done to its processes while it is held with so many lines in the journal."""
    project.out = project.root / name
    held = Held(project, "\n", lines)
    environment = held.environment if meanwhile else {}
    process = project.start("run", "--out", project.out, "--verify", "1", *options, "failing.py", **environment)
    if meanwhile is not None:
        held.wait(process)
        meanwhile(process.pid)
        held.release()
    return project.finish(process, 200)


def processes(name: bytes) -> list[int]:
    """Processes of this user whose title begins with this."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(name):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def descendants_of(pid: int) -> set[int]:
    from minifier.process.descendants import descendants

    return set(descendants(pid))


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:  # it has ended meanwhile
        return ""


def folder_of_ray(pid: int) -> Path:
    """Where the Ray that this run has started has its files."""
    lines = [command_of(each) for each in descendants_of(pid)]
    return Path(next(found[0] for line in lines if (found := re.search(r"/tmp/minify-ray-\w+", line))))


def test_the_answer_is_that_of_this_machine_though_a_worker_is_killed(wrong: Project):
    here = run(wrong, "here", "--workers", "2")
    assert here.code == 0, here.stderr
    killed = []

    def kill_one(pid: int) -> None:
        (victim, *_) = set(processes(b"ray::Actor")) & descendants_of(pid)
        os.kill(victim, signal.SIGKILL)
        killed.append(folder_of_ray(pid))

    there = run(wrong, "there", "--cluster", "local", "--workers", "2", lines=5, meanwhile=kill_one)
    assert there.code == 0, there.stderr
    assert killed and "going on on this machine" not in there.stderr
    assert there.repro == here.repro
    counts = "probes", "seconds", "repro", "others"
    left = [{key: value for key, value in done.result.items() if key not in counts} for done in (here, there)]
    assert left[0] == left[1]
    wait_until(lambda: not wrong.litter())  # what the killed worker had goes as soon as that is noticed
    assert not killed[0].exists(), "temporary files were left"


def test_without_the_cluster_it_goes_on_here(wrong: Project):
    folders = []

    def kill_driver(pid: int) -> None:
        lines = {each: Path(f"/proc/{each}/cmdline").read_bytes() for each in descendants_of(pid)}
        (driver,) = [each for each, line in lines.items() if b"minifier.reduction.cluster.driver" in line]
        folders.append(folder_of_ray(pid))
        os.kill(driver, signal.SIGKILL)

    done = run(wrong, "lost", "--cluster", "local", "--workers", "2", lines=3, meanwhile=kill_driver)
    assert done.code == 0, done.stderr
    assert "going on on this machine" in done.stderr and done.result["ops_after"] == 2
    assert not folders[0].exists(), "temporary files were left"


@pytest.mark.soak
def test_a_slot_answers_only_while_its_process_holds_the_case(processes: None, tmp_path: Path):
    save(replace(small_case(), script=Script("failing", (str(CASES),))), tmp_path)
    base = load(tmp_path)
    question = {"probe": pickled(base), "until": "run", "seconds": 60.0, "memory": None}
    slot = Actor({})
    try:
        assert slot.probe(question) is None, "Ray has restarted it"
        assert slot.ready(packed(tmp_path), True, None) == {}
        assert "ended" in slot.probe(question)
        (process,) = [each for each in descendants_of(os.getpid()) if "cluster.worker" in command_of(each)]
        os.kill(process, signal.SIGKILL)
        assert slot.probe(question) is None
        assert slot.ready(packed(tmp_path), True, None) == {}
        assert "ended" in slot.probe(question)
    finally:
        slot.close()


def test_an_address_where_nobody_is(wrong: Project):
    done = run(wrong, "nowhere", "--cluster", "127.0.0.1:1")
    assert done.code == 2
    assert re.search(r"--cluster 127\.0\.0\.1:1: ConnectionRefusedError", done.stderr) and "`local`" in done.stderr


def test_without_ray(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(UsageError, match=r"pip install torch-minify\[ray\]"),
        prepared(Settings(cluster="local", workers=1, verify=1), SILENT, Interpreters()),
    ):
        pass
