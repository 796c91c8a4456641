"""Output folders of finished runs that were damaged: each command reads them, or refuses them in a sentence."""

import functools
import json
import operator
import random
import shutil
from dataclasses import replace

import pytest
from damage import CANARY, SEED, damaged
from layers import SOAK
from outcomes import outcome, write_run
from vocabulary import tree

from minifier.repro.report.write_reports import write_reports

pytestmark = pytest.mark.timeout(300)

FILES = (
    "case/case.json", "case/graph.json", "minimal/case.json", "minimal/graph.json", "result.json", "finished.json",
    "run.json", "artifacts/aot-forward-1.py",
)  # fmt: skip
COMMANDS = (
    ("report",), ("report", "--github"), ("show",), ("list",), ("check",), ("reduce",), ("explain",),
    ("test", "-o", "tests"),
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """The output folder of a run, as a stranger's: nothing in it has a mark."""
    out = tmp_path / "given" / "failing-1"
    finished = replace(outcome(), folder=out)
    write_run(out, finished)
    (out / "artifacts").mkdir()
    (out / "artifacts" / "aot-forward-1.py").write_text('"a graph"')
    (out / "run.json").write_text(json.dumps({"target": "failing.py", "arguments": [], "folder": "/"}))
    write_reports(out, finished)
    for name in ("case/case.json", "minimal/case.json", "result.json"):
        data = json.loads((out / name).read_text())
        (out / name).write_text(json.dumps({**data, "mark": None}))
    return out


@pytest.mark.parametrize(("rounds", "seed"), [(100, "7"), pytest.param(2000, SEED, marks=SOAK)], ids=["sample", "many"])
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
        place = given.parent if command[0] == "list" else given
        done = refusing.minify(command[0], place, *command[1:])
        what = f"round {number}: {name}, {command}\n{done.stderr}"
        assert done.code in ((0, 1, 2) if command[0] != "check" else (0, 1, 125, 128)), what
        assert "Traceback" not in done.stderr and len(done.stderr) < 4000, what
        assert done.code == 0 or done.stderr.strip(), what
        assert beside() == before, what
        refused += done.code != 0
    record_property("printed", f"{refused} of {rounds} were refused")
    assert rounds / 4 < refused < rounds and not singing.exists()


def with_value(run, place, value):
    """Put a value into finished.json."""
    path = run / "finished.json"
    data = json.loads(path.read_text())
    functools.reduce(operator.getitem, place[:-1], data)[place[-1]] = value
    path.write_text(json.dumps(data))


DAMAGE = {
    "no Python": lambda run: (run / "repro.py").write_text("def ("),
    "open brackets": lambda run: (run / "repro.py").write_text("(" * 5000),
    "a pattern of brackets": lambda run: with_value(run, ("match_log",), "(" * 5000),
    "more signs": lambda run: (run / "repro.py").write_text("-" * 100_000 + "1"),
    "no total": lambda run: with_value(run, ("summary", "probes"), {"SAME": 1}),
    "another failure without a name": lambda run: with_value(run, ("summary", "others"), [{}]),
    "no pattern": lambda run: with_value(run, ("match",), "("),
    "a compiler that is code": lambda run: with_value(run, ("repro", "variant"), {"compiler": 'x"] or evil()["'}),
    "a folder of artifacts": lambda run: (run / "artifacts" / "more").mkdir(),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_report_is_refused_with_the_place(refusing, run, damage):
    DAMAGE[damage](run)
    done = refusing.minify("report", run)
    assert done.code == 2 and len(done.stderr) < 1000
    assert any(name in done.stderr for name in ("finished.json", "repro.py", "artifacts"))


def test_a_long_sum_is_no_damage(refusing, run):
    (run / "repro.py").write_text(f"x = {' + '.join(map(repr, 'abcdefgh' * 100))}\n")
    assert refusing.minify("report", run).code == refusing.minify("show", run).code == 0


@pytest.mark.parametrize("errors", [[""], ["\n \n"]])
def test_an_error_without_words_is_reported(refusing, run, errors):
    with_value(run, ("errors",), errors)
    assert refusing.minify("report", run).code == refusing.minify("show", run).code == 0


def test_a_private_name_is_no_template(refusing, run):
    (run / "case" / "private.json").write_text(json.dumps([["oddlib", r"\1\g<9>"]]))
    assert refusing.minify("report", run).code == 0 and r"\1\g<9>" in (run / "report.md").read_text()


def test_a_pattern_that_is_none_ends_the_check(refusing, run):
    path = run / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "match": "("}))
    done = refusing.minify("check", "--trust", run)
    assert done.code == 128 and "regular expression" in done.stderr


def test_no_file_that_is_shown_moves_a_cursor(refusing, run):
    hostile = "\x1b]0;owned\x07\x1b[2J\u202e\r"
    with_value(run, ("reason",), hostile)
    with_value(run, ("environment",), hostile)
    with_value(run, ("others",), [hostile])
    done = refusing.minify("report", "--github", run)
    assert done.code == 0
    texts = [path.read_text() for path in run.glob("*.*") if path.suffix != ".zip"]
    assert len(texts) > 5 and not any(set(text) & set(hostile) & set("\x1b\x07\u202e\r") for text in texts)
    assert "owned" in (run / "report.md").read_text()
