"""Output folders of finished runs that were damaged: each command reads them, or refuses them in a sentence."""

import json
import random
import shutil
from dataclasses import replace

import pytest
from damage import CANARY, SEED, damaged
from layers import SOAK
from outcomes import outcome
from vocabulary import tree

from minifier.data.case.store import save
from minifier.repro.report.write_reports import write_reports

pytestmark = pytest.mark.timeout(300)

FILES = (
    "case/case.json", "case/graph.json", "minimal/case.json", "minimal/graph.json", "result.json", "finished.json",
    "run.json", "artifacts/aot-forward-1.py",
)  # fmt: skip
COMMANDS = (
    ("report",), ("report", "--github"), ("show",), ("list",), ("dedupe",), ("check",), ("reduce",), ("explain",),
    ("test", "-o", "tests"),
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """The output folder of a run, as a stranger's: nothing in it has a mark."""
    out = tmp_path / "given" / "failing-1"
    finished = replace(outcome(), folder=out)
    save(finished.case, out / "case")
    save(finished.minimal, out / "minimal")
    (out / "repro.py").write_text(finished.repro.text)
    (out / "artifacts").mkdir()
    (out / "artifacts" / "aot-forward-1.py").write_text('"a graph"')
    (out / "run.json").write_text(json.dumps({"target": "failing.py", "arguments": [], "folder": "/"}))
    write_reports(out, finished)
    for name in ("case/case.json", "minimal/case.json", "result.json"):
        data = json.loads((out / name).read_text())
        (out / name).write_text(json.dumps({**data, "mark": None}))
    return out


@pytest.mark.parametrize(
    ("rounds", "seed"),
    [(200, "7"), pytest.param(2000, SEED, marks=SOAK)],
    ids=["sample", "many"],
)
def test_each_command_reads_or_refuses(refusing, run, tmp_path, monkeypatch, record_property, rounds, seed):
    """The seed of the many is drawn and printed; DAMAGE_SEED gives it."""
    record_property("printed", f"damaged runs, seed {seed}")
    singing = tmp_path / "singing"
    (tmp_path / f"{CANARY}.py").write_text(f"open({str(singing)!r}, 'w').close()\nthing = x = print\n")
    monkeypatch.syspath_prepend(tmp_path)
    chance, refused, given = random.Random(seed), 0, tmp_path / "now" / "failing-1"

    def beside():
        return {path: text for path, text in tree(tmp_path).items() if not path.startswith("now/")}

    before = beside()
    for number in range(rounds):
        shutil.rmtree(given, ignore_errors=True)
        shutil.copytree(run, given)
        name, command = chance.choice(FILES), chance.choice(COMMANDS)
        (given / name).write_bytes(damaged((run / name).read_text(), chance, number % 8))
        place = given.parent if command[0] in ("list", "dedupe") else given
        done = refusing.minify(command[0], place, *command[1:])
        what = f"round {number}: {name}, {command}\n{done.stderr}"
        assert done.code in ((0, 1, 2) if command[0] != "check" else (0, 1, 2, 125)), what
        assert "Traceback" not in done.stderr and len(done.stderr) < 4000, what
        assert done.code == 0 or done.stderr.strip(), what
        assert beside() == before, what
        refused += done.code != 0
    record_property("printed", f"{refused} of {rounds} were refused")
    assert rounds / 4 < refused < rounds and not singing.exists()
