"""The corpus: each failing program under `minify run`, once, with all that its header and every run promise."""

import contextlib
import json
import os
import zipfile
from pathlib import Path

import pytest

from benchmarks.programs import ROOT, Program, programs

BY_LAYER = [program for program in programs() if program.layer != "corpus"]


def parameter(program):
    return pytest.param(program, id=program.name, marks=[pytest.mark.soak] if program.layer == "soak" else [])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", [parameter(program) for program in BY_LAYER])
def test_program(program, project):
    if lacking := program.lacks():
        pytest.skip(f"needs {lacking}")
    script = program.put_into(project.folder)
    options = ("--out", project.out, "--verify", "1", "--budget", "800")  # however busy the machine is
    done = project.minify("run", *options, *program.options, script.name, *program.arguments, timeout=840)
    assert program.missed(done.code, done.stderr, done.out) == [], done.stderr
    assert (done.code == 1) is not done.out.exists(), "results are written if, and only if, there is a failure"
    assert left_behind(project) == [], "processes of the program, or of its backend, were left"
    if done.out.exists():
        assert_whole(done, project)


def left_behind(project):
    """The processes with the project's variables: those that the program, its backend or the tool has started."""
    left = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            left += [path.parent.name] if os.fsencode(project.temporary) in path.read_bytes() else []
    return left


def assert_whole(done, project):
    """What every run that has written its folder promises, however it ended."""
    result = done.result
    counts, phases = result["probes"], result["seconds"]["phases"]
    assert counts["total"] == sum(
        counts.get(verdict, 0) for verdict in ("SAME", "OTHER", "PASS", "INVALID", "UNRESOLVED")
    )
    assert sum(phases.values()) == pytest.approx(result["seconds"]["total"], abs=0.1)
    assert {"report.md", "result.json", "bundle.zip"} <= {path.name for path in done.out.iterdir()}
    assert not list(done.out.glob(".*")), "half-written files were left"
    assert all((done.out / other["case"]).exists() for other in result["others"] if other.get("case"))
    with zipfile.ZipFile(done.out / "bundle.zip") as bundle:
        texts = [bundle.read(name).decode(errors="replace") for name in bundle.namelist()]
    assert not any(str(project.root) in text or str(ROOT) in text for text in texts), "a private path in the bundle"
    assert not any(name.endswith(".safetensors") for name in bundle.namelist()), "values, which nobody has agreed to"
    if done.code == 0:
        assert result["verified"]["same"] == result["verified"]["runs"] == 1
        assert result["verified"]["control"] == "passed"
        assert "import minifier\n" not in done.repro and "from minifier " not in done.repro
    elif done.code == 4:
        assert (done.out / "unverified.py").exists() and not (done.out / "repro.py").exists()


def write(folder, header, name="case.py"):
    (folder / name).write_text(f'"""The backend knows no cosine.\n\n{header}\n"""\n')
    return folder / name


REACHED = {"level": "dynamo", "ops_after": 1, "verified": {"control": "passed"}}


@pytest.mark.parametrize(
    ("changed", "code", "repro", "missed"),
    [
        ({}, 0, "torch.cos(x)", []),
        ({}, 4, "torch.cos(x)", ["exit 4 for 0"]),
        ({"ops_after": 2}, 0, "torch.cos(x)", ["2 for 1 ops or statements"]),
        ({"level": "source", "statements_after": 3}, 0, "torch.cos(x)", ["3 for 1 ops or statements"]),
        ({"verified": {"control": "failed"}}, 0, "torch.cos(x)", ["no repro that passes in eager"]),
        ({}, 0, "torch.sin(x)", ["shows: cos"]),
        ({}, 0, "torch.cos(x).tan()", ["hides: tan"]),
    ],
)
def test_what_was_missed_is_told(tmp_path, changed, code, repro, missed):
    program = Program.read(write(tmp_path, "reach: exit 0, 1 op\nshows: cos\nhides: tan"))
    (tmp_path / "result.json").write_text(json.dumps(REACHED | changed))
    (tmp_path / "repro.py").write_text(repro)
    assert program.missed(code, "", tmp_path) == missed
