"""`minify hunt --cluster local`: a real Ray."""

import json

import pytest
from test_hunt import lines, planted

# Far more programs than a batch; one of them kills the process that tries programs, once.
PROGRAMS = """
    import os
    import pathlib
    import signal

    import torch

    KILLED = pathlib.Path(PLACE)


    def deadly(x):
        if not KILLED.exists() and torch.compiler.is_compiling():
            KILLED.touch()
            os.kill(os.getppid(), signal.SIGKILL)
        return x + 1


    def programs():
        x = torch.rand(3)
        for number in range(70):
            yield f"right {number}", lambda value: value + 1, (x,), {}
        yield "deadly", deadly, (x,), {}
        for number in range(70):
            yield f"left {number}", lambda value: torch.logsumexp(value, 0), (x,), {}
        yield "gate", lambda value: torch.sigmoid(value) * 2, (x,), {}
"""


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("workers", [1, 4])
def test_the_result_is_that_of_one_machine_though_a_server_is_killed(project, workers, tmp_path_factory):
    killed = tmp_path_factory.mktemp("beside") / "killed"
    asked = planted(project, "mine:programs", "--cluster", "local", "--workers", str(workers))
    project.write(PROGRAMS.replace("PLACE", repr(str(killed))), "mine.py")
    done = project.minify(*asked, timeout=300)
    assert done.code == 1 and killed.exists(), done.says
    found = [(line["subject"], line["answer"], line["group"]) for line in lines(project.out)]
    summary = json.loads((project.out / "summary.json").read_text())
    assert summary["sentence"] == "faulty: 71 of 142 work; 2 distinct failures, the worst costs 70 programs"
    works = {("deadly", "works", 0), *((f"right {n}", "works", 0) for n in range(70))}
    fails = {("gate", "fails", 2), *((f"left {n}", "fails", 1) for n in range(70))}
    assert sorted(found) == sorted(works | fails)
    assert all((project.out / each["folder"] / "repro.py").exists() for each in summary["failures"])
