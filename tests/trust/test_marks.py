"""Marks, in the test process: what they cover, the key and its file, and what is shown of somebody else's code."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import small_case
from outcomes import outcome, write_run

from minifier.capturing.script import Program
from minifier.data.case import Script
from minifier.data.case.files import MARK, _key, is_made_here, key_file, mark_of_repro, marked, why_no_key
from minifier.data.case.store import CASE, GRAPH, is_own, load, save
from minifier.errors import UsageError
from minifier.flow.folders import (
    RUN_FILE,
    SOURCE,
    Asked,
    asked_there,
    is_own_run,
    is_own_source,
    keep_source,
    kept_source,
    note_run,
)
from minifier.flow.foreign_code import foreign_code_in, foreign_code_of, foreign_code_of_run, shown
from minifier.repro.report.write_reports import read_finished, write_reports


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data folder of the test's own; the key of the test run comes back afterwards."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    _key.cache_clear()
    yield tmp_path / "data"
    _key.cache_clear()


@pytest.fixture
def case(tmp_path):
    save(small_case(), tmp_path / "case")
    return tmp_path / "case"


def edit(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}, indent=1))


def test_a_saved_case_is_own_wherever_it_is_moved(case, tmp_path):
    assert is_own(case) and foreign_code_in(case) == []
    shutil.copytree(case, tmp_path / "copy")
    case.rename(tmp_path / "moved")
    assert is_own(tmp_path / "copy") and is_own(tmp_path / "moved")
    save(load(tmp_path / "moved"), tmp_path / "moved")
    assert is_own(tmp_path / "moved")


CHANGES = [
    lambda case: edit(case / CASE, definitions="import os"),
    lambda case: edit(case / CASE, version=99),
    lambda case: edit(case / CASE, more=1),
    lambda case: edit(case / CASE, mark=None),
    lambda case: edit(case / CASE, mark="\ud800"),
    lambda case: edit(case / CASE, mark="0" * 64),
    lambda case: (case / CASE).write_text(json.dumps([1])),
    lambda case: (case / CASE).write_text("[" * 100_000),
    lambda case: (case / CASE).write_bytes(b"\xff"),
    lambda case: (case / CASE).unlink(),
    lambda case: (case / GRAPH).unlink(),
    lambda case: (case / GRAPH).write_text((case / GRAPH).read_text() + " "),
    lambda case: (case / GRAPH).write_text((case / GRAPH).read_text().replace("torch.", "os.", 1)),
]


def test_a_changed_case_is_not(case, tmp_path):
    for number, change in enumerate(CHANGES):
        copy = shutil.copytree(case, tmp_path / str(number))
        change(copy)
        assert not is_own(copy), number


def test_a_case_that_was_only_laid_out_anew_is_own(case):
    data = json.loads((case / CASE).read_text())
    (case / CASE).write_text(json.dumps(dict(reversed(data.items()))))
    assert is_own(case)


def test_a_mark_is_of_one_kind_of_file_alone():
    data = marked("case", {"a": 1}, b"graph")
    assert is_made_here("case", data, b"graph")
    for kind, files in (("run", (b"graph",)), ("case", (b"gra", b"ph")), ("case", ()), ("case", (b"graph", b""))):
        assert not is_made_here(kind, data, *files)
    assert not is_made_here("case", {**data, "a": True}, b"graph")


def test_another_key_makes_everything_foreign(case, home):
    assert not is_own(case)
    save(small_case(), case)
    assert is_own(case) and key_file() == home / "minify" / "key"
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600 and len(key_file().read_bytes()) == 32
    assert [path.name for path in key_file().parent.iterdir()] == ["key"]
    key_file().unlink()
    _key.cache_clear()
    assert not is_own(case)


@pytest.mark.parametrize("value", ["", "relative/data"])
def test_the_key_is_in_the_home_folder_by_default(tmp_path, home, monkeypatch, value):
    monkeypatch.setenv("XDG_DATA_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert key_file() == tmp_path / ".local" / "share" / "minify" / "key" and not why_no_key()


def no_folder(home: Path) -> None:
    home.write_text("a file")


def readable(home: Path) -> None:
    (home / "minify").mkdir(parents=True)
    (home / "minify" / "key").write_bytes(bytes(32))
    (home / "minify" / "key").chmod(0o644)


def short(home: Path) -> None:
    (home / "minify").mkdir(parents=True)
    (home / "minify" / "key").write_bytes(bytes(31))
    (home / "minify" / "key").chmod(0o600)


def a_folder(home: Path) -> None:
    (home / "minify" / "key").mkdir(parents=True)


@pytest.mark.parametrize("damage", [no_folder, readable, short, a_folder])
def test_without_a_key_cases_are_saved_and_nothing_is_own(case, home, damage):
    damage(home)
    assert why_no_key()
    save(small_case(), case)
    assert load(case) == small_case() and not is_own(case) and mark_of_repro(b"", {}) == ""
    assert MARK not in json.loads((case / CASE).read_text())
    edit(case / CASE, mark="")
    assert not is_own(case) and foreign_code_in(case)


def test_without_a_home_folder(home, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user that nobody knows
    assert "home" in why_no_key()


def fork_that_marks(go: int, given: int) -> int:
    """A fork that writes a mark once it may."""
    if (pid := os.fork()) == 0:
        try:
            os.read(go, 1)
            os.write(given, f"{mark_of_repro(b'repro', {})}\n".encode())
        finally:
            os._exit(0)
    return pid


def test_all_who_need_the_first_key_get_the_same(home, processes):
    """Forks that all need it at once."""
    go, given = os.pipe(), os.pipe()
    pids = [fork_that_marks(go[0], given[1]) for _ in range(8)]
    os.write(go[1], b"8" * 8)
    for pid in pids:
        os.waitpid(pid, 0)
    os.close(given[1])
    with os.fdopen(given[0]) as marks:
        assert marks.read().split() == [mark_of_repro(b"repro", {})] * 8
    assert [path.name for path in key_file().parent.iterdir()] == ["key"]


def test_the_record_of_a_run(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text("print()")
    asked = Asked(Program(str(script), ("--x",)))
    note_run(tmp_path, asked)
    assert is_own_run(tmp_path) and asked_there(tmp_path) == asked and foreign_code_in(tmp_path) == []
    edit(tmp_path / RUN_FILE, arguments=["-c", "evil"], backend="acme", modules=["acme.all"])
    assert not is_own_run(tmp_path)
    assert foreign_code_in(tmp_path) == [str(tmp_path / RUN_FILE)]


def test_the_source_that_a_dead_process_left(tmp_path):
    assert kept_source(tmp_path) == "" and not is_own_source(tmp_path)
    keep_source(tmp_path, "def f():\n    pass\n")
    assert kept_source(tmp_path) == "def f():\n    pass\n" and is_own_source(tmp_path)
    edit(tmp_path / SOURCE, source="def g():\n    pass\n")
    assert foreign_code_in(tmp_path) == [str(tmp_path / SOURCE)]


def test_a_repro_and_the_folders_of_its_case(tmp_path):
    repro = tmp_path / "repro.py"
    repro.write_text("import torch\n")
    assert foreign_code_of(repro) == [str(repro)]
    (tmp_path / "result.json").write_text(json.dumps({MARK: mark_of_repro(repro.read_bytes(), {})}))
    assert foreign_code_of(repro) == []
    save(replace(small_case(), script=Script("s", folders=("/home/mallory",))), tmp_path / "minimal")
    assert foreign_code_of(repro) == []
    edit(tmp_path / "minimal" / CASE, version=99)
    assert foreign_code_of(repro) == [str(tmp_path / "minimal" / CASE)]
    repro.write_text("import os\n")
    assert str(repro) in foreign_code_of(repro)


def test_a_file_that_the_repro_reads_is_as_foreign_as_the_repro(tmp_path):
    repro, rules = tmp_path / "repro.py", tmp_path / "rules.conf"
    repro.write_text("import torch\n\n# Reads rules.conf in the folder in which it runs.\n")
    rules.write_text("strict = True\n")
    mark = mark_of_repro(repro.read_bytes(), {"rules.conf": rules.read_bytes()})
    (tmp_path / "result.json").write_text(json.dumps({MARK: mark}))
    assert foreign_code_of(repro) == []
    rules.write_text("strict = evil()\n")
    assert foreign_code_of(repro) == [str(repro), str(rules)]
    rules.unlink()
    assert foreign_code_of(repro) != [], "the mark was of two files"
    rules.symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"rules\.conf"):
        foreign_code_of(repro)


def test_the_record_of_a_run_has_a_mark_which_no_report_of_another_gets(tmp_path):
    given = replace(outcome(), folder=tmp_path)
    write_run(tmp_path, given)
    write_reports(tmp_path, replace(given, mark=mark_of_repro(given.repro.text.encode(), {})))
    assert foreign_code_of_run(tmp_path) == []
    write_reports(tmp_path, *read_finished(tmp_path))
    assert foreign_code_of_run(tmp_path) == [], "an own report of an own run"
    edit(tmp_path / "finished.json", reason="another one")
    assert foreign_code_of_run(tmp_path) == [str(tmp_path / "finished.json")]
    write_reports(tmp_path, *read_finished(tmp_path))
    assert foreign_code_of_run(tmp_path) == [str(tmp_path / "finished.json")]


def test_a_case_within_a_case_counts(case):
    save(small_case(), case / "forward")
    assert foreign_code_in(case) == []
    edit(case / "forward" / CASE, definitions="def evil(): pass")
    assert foreign_code_in(case) == [str(case / "forward" / name) for name in (CASE, GRAPH)]
    shutil.rmtree(case / "forward")
    (case / "forward").symlink_to(case.parent)
    assert foreign_code_in(case) == [f"{case / 'forward'}, a link"], "links are not followed"


def test_what_is_shown_is_short_and_cannot_move_the_cursor():
    names = [*(f"case-{number}/case.json" for number in range(1000)), "last"]
    lines = shown(["a\x1b[2J\r\nb\u202e" + "x" * 5000, *names]).splitlines()
    assert len(lines) < 20 and max(map(len, lines)) < 400 and lines[-1].endswith("990 more")
    assert "\\x1b[2J\\r\\nb\\u202e" in lines[0] and "".join(lines).isprintable()


def test_files_of_any_content_can_be_shown(tmp_path):
    for text in ("[]", "{}", "3", "null", "[[[{}]]]", '{"ahead": 3, "environment": 4, "made": {}}'):
        for name in (CASE, GRAPH, RUN_FILE, SOURCE):
            (tmp_path / name).write_text(text)
        assert shown(foreign_code_in(tmp_path))
