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

with torch.no_grad():
    torch.compile(lambda x: torch.tanh((x.sin() + 1).cos() * 2).cos().sin(), backend=slow)(torch.randn(8, 8))
"""


def test_what_was_killed_goes_on(project):
    project.write(SLOW)
    project.out = out = project.folder / "minify-out" / "failing-1"
    held = Held(project, "\n", 3)
    process = project.start_warm("run", "--verify", "1", "failing.py", **held.environment)
    held.wait(process)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    held.release()
    known = (out / "journal.jsonl").read_text()

    again = project.finish(project.start_warm("run", "--verify", "1", "failing.py"), 100)
    assert again.code == 0 and "`minify reduce minify-out/failing-1` goes on with it" in again.stderr
    assert (project.folder / "minify-out" / "failing-2" / "repro.py").exists() and not (out / "repro.py").exists()

    done = project.finish(project.start_warm("reduce", "--verify", "1", "minify-out/failing-1"), 100)
    assert done.code == 0 and (out / "repro.py").exists()
    assert (out / "journal.jsonl").read_text().startswith(known) and not (out / "begun.jsonl").exists()

    project.write(SLOW.replace("no tanh", "no tanh at all"))
    other = project.finish(project.start_warm("run", "--verify", "1", "--budget", "0", "failing.py"), 100)
    assert "goes on with it" not in other.stderr


BY_SOURCE = SLOW.replace("with torch", "unneeded = torch.ones(3)\nprint(unneeded)\nwith torch")


def test_a_reduction_of_the_source_that_was_killed_goes_on(project):
    project.write(BY_SOURCE)
    project.out = out = project.folder / "minify-out" / "failing-1"
    options = "--verify", "1", "--level", "source"
    held = Held(project, '"SAME"', 2)
    process = project.start_warm("run", *options, "failing.py", **held.environment)
    held.wait(process)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    held.release()
    listed = project.minify("list")
    assert listed.code == 0 and "failing-1" in listed.stdout and "interrupted" in listed.stdout

    again = project.finish(project.start_warm("run", *options, "--budget", "0", "failing.py"), 100)
    assert "`minify reduce minify-out/failing-1` goes on with it" in again.stderr

    done = project.finish(project.start_warm("reduce", "--verify", "1", "minify-out/failing-1"), 100)
    assert done.code == 0 and "unneeded" not in (out / "repro.py").read_text(), done.stderr
    counts = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    checks = [place for place, entry in enumerate(counts) if entry["phase"] == "check"]
    assert counts[checks[-1]]["lines"] < counts[checks[0]]["lines"]  # the script that was reached


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


@pytest.mark.usefixtures("soak")
def test_what_was_killed_goes_on_to_the_source_as_well(project):
    script = project.write(UNSETTLED)
    out = project.out
    held = Held(project, "{", 1, "case/case.json")
    process = project.start_warm("run", "--verify", "1", "--out", str(out), "failing.py", **held.environment)
    held.wait(process)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    held.release()
    done = project.finish(project.start_warm("reduce", "--verify", "1", str(out)), 150)
    assert done.code == 0 and "raise LookupError" in done.repro, done.stderr
    project.write(script.read_text() + "# changed\n")
    (out / "result.json").unlink()  # as a run leaves it that is killed before its end
    done = project.finish(project.start_warm("reduce", "--verify", "1", str(out)), 150)
    assert done.code == 4, done.stderr
