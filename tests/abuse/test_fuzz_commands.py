"""Changed Cases and run folders through the command line: each is worked on, or refused with the reason."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest
from case_samples import small_case
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from mutated_cases import CANARY, mutated

from minifier.case import BackendSource, Case
from minifier.case.store import save
from minifier.emit.repro import Repro
from minifier.report.finished import write_reports
from minifier.report.outcome import Outcome, Status

pytestmark = pytest.mark.timeout(1800)

SEED = int(os.environ.get("FUZZ_SEED", "1"))
EXAMPLES = 200
LINE = b'{"phase": "ops", "ops": "0-1", "verdict": "SAME", "seconds": 0.5, "terms": "", "elements": 6}\n'
ODD = ["FIFO", "link", "folder", "socket"]


def unreachable() -> Case:
    """A Case whose backend no interpreter can import: a reduction ends before anything of it runs."""
    case = small_case()
    return replace(
        case, backend=replace(case.backend, reach=BackendSource.NONE, expression="", reason="it is a closure")
    )


def make_run(folder):
    """A finished run."""
    case = unreachable()
    folder.mkdir()
    (folder / "repro.py").write_text("import oddlib\n")
    (folder / "journal.jsonl").write_bytes(LINE * 3)
    save(case, folder / "case")
    save(case, folder / "minimal")
    repro = Repro("import oddlib\n", None)
    write_reports(folder, Outcome(Status.REDUCED, case, case, None, repro, None, "", 1.0, 2.0, environment="Python: 3"))


def put_odd(place, kind, outside):
    """Replace a file by something that is none."""
    place.unlink()
    if kind == "FIFO":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(outside / "secret")
    elif kind == "socket":
        os.mknod(place, 0o140600)
    else:
        place.mkdir()


@pytest.mark.usefixtures("soak")
def test_changed_folders_through_the_commands(project, tmp_path):
    print(f"FUZZ_SEED={SEED}")
    run, outside, folder = tmp_path / "run", tmp_path / "outside", tmp_path / "changed"
    outside.mkdir()
    (outside / "secret").write_text("root:x:0:0")
    singing = tmp_path / "singing"
    (project.folder / f"{CANARY}.py").write_text(f"open({str(singing)!r}, 'w').close()\n")
    make_run(run)
    codes: dict[tuple[str, int], int] = {}

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def attempt(data):
        command = data.draw(st.sampled_from(["report", "reduce"]))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run, folder)
        names = ["case/case.json", "case/graph.json"]
        if command == "report":
            names += ["minimal/case.json", "finished.json", "finished.json", "journal.jsonl"]
        place = folder / data.draw(st.sampled_from(names))
        odd = data.draw(st.sampled_from([None] * 6 + ODD))
        if odd is not None:
            put_odd(place, odd, outside)
        else:
            content = place.read_bytes()
            lines = content.splitlines(keepends=True)[:1] if place.suffix == ".jsonl" else [content]
            place.write_bytes(data.draw(mutated(lines[0])))
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        arguments = ("--trust", folder / "case", "--out", out) if command == "reduce" else (folder,)
        done = project.minify(command, *arguments, timeout=60)
        codes[command, done.code] = codes.get((command, done.code), 0) + 1
        assert done.code in ((0, 2) if command == "report" else (2, 4)), done.stderr
        assert "Traceback" not in done.stderr and "error of minify" not in done.stderr, done.stderr
        if done.code == 2:
            assert place.name in done.stderr, done.stderr
        assert not singing.exists(), "something of the Case was executed"
        assert [path.read_text() for path in outside.iterdir()] == ["root:x:0:0"]
        assert b"root:x" not in b"".join(path.read_bytes() for path in folder.glob("bundle.zip"))

    attempt()
    print(codes)
    assert codes["report", 0] and codes["report", 2] and codes["reduce", 2] and codes["reduce", 4]
