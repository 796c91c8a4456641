"""A run that was killed is found again by `minify run` on the same script."""

import json
import signal

import pytest
from vocabulary import Held

pytestmark = pytest.mark.timeout(200)

SLOW = """
import torch
from oddlib.held import hold

def slow(gm, inputs):
    hold()
    if any(node.target is torch.tanh for node in gm.graph.nodes) and len(gm.graph.nodes) > 1:
        raise LookupError("no tanh")
    return gm.forward

unneeded = torch.ones(3)
with torch.no_grad():
    torch.compile(lambda x: torch.tanh((x.sin() + 1).cos() * 2).cos().sin(), backend=slow)(torch.randn(8, 8))
"""
FIRST = "minify-out/failing-1"


@pytest.fixture
def killed(project):
    """`killed(script, text, times, options...)` is a project whose run was killed once its journal had the text."""

    def run(script, text, times, *options, file="journal.jsonl"):
        project.write(script)
        project.out = project.folder / FIRST
        held = Held(project, text, times, file)
        process = project.start_warm("run", "--verify", "1", *options, "failing.py", **held.environment)
        held.wait(process)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        held.release()
        return project

    return run


def finish(project, *arguments):
    return project.finish(project.start_warm(arguments[0], "--verify", "1", *arguments[1:]), 150)


def test_what_was_killed_goes_on(killed):
    project = killed(SLOW, "\n", 3)
    known = (project.out / "journal.jsonl").read_text()
    again = finish(project, "run", "failing.py")
    assert again.code == 0 and f"`minify reduce {FIRST}` goes on with it" in again.stderr
    assert (project.folder / "minify-out" / "failing-2" / "repro.py").exists()
    assert not (project.out / "repro.py").exists()

    done = finish(project, "reduce", FIRST)
    assert done.code == 0 and (project.out / "repro.py").exists()
    assert (project.out / "journal.jsonl").read_text().startswith(known)
    assert not (project.out / "begun.jsonl").exists()

    project.write(SLOW.replace("no tanh", "no tanh at all"))
    assert "goes on with it" not in finish(project, "run", "--budget", "0", "failing.py").stderr


@pytest.mark.soak
def test_a_reduction_of_the_source_that_was_killed_goes_on(killed):
    project = killed(SLOW, '"SAME"', 2, "--level", "source")
    listed = project.minify("list")
    assert listed.code == 0 and "failing-1" in listed.stdout and "interrupted" in listed.stdout
    again = finish(project, "run", "--level", "source", "--budget", "0", "failing.py")
    assert f"`minify reduce {FIRST}` goes on with it" in again.stderr
    done = finish(project, "reduce", FIRST)
    assert done.code == 0 and "unneeded" not in done.repro, done.stderr
    entries = [json.loads(line) for line in (project.out / "journal.jsonl").read_text().splitlines()]
    lines = [entry["lines"] for entry in entries if entry["phase"] == "check"]
    assert lines[-1] < lines[0], "the script that was reached"


UNSETTLED = """
import torch
from oddlib.held import hold

calls = []

def slow(gm, inputs):
    hold()
    calls.append(gm)
    if len(calls) == 3:  # what no repro of one graph shows
        raise LookupError("no third")
    return gm.forward

for n in range(1, 8):
    torch.compile(lambda x: (x.sin() + n).cos() * 2, backend=slow)(torch.randn(8, 8))
"""


@pytest.mark.soak
def test_what_was_killed_goes_on_to_the_source_as_well(killed):
    project = killed(UNSETTLED, "{", 1, file="case/case.json")
    done = finish(project, "reduce", FIRST)
    assert done.code == 0 and "raise LookupError" in done.repro, done.stderr
    project.write(UNSETTLED + "# changed\n")
    (project.out / "result.json").unlink()  # as a run leaves it that is killed before its end
    assert finish(project, "reduce", FIRST).code == 4
