"""`minify list`, and `minify reduce` of a finished run."""

import contextlib
import json
import shutil
from dataclasses import replace

import pytest
from outcomes import outcome
from vocabulary import tree

from minifier.capturing.script import Program
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import save
from minifier.flow.cli.listing import list_command
from minifier.flow.folders import Asked, make_folder, note_run
from minifier.repro.report.write_reports import write_reports


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two finished runs with one failure, and a third that was interrupted; no test changes anything in them."""
    results = tmp_path_factory.mktemp("made") / "minify-out"
    for name in ("first-1", "second-1", "third-1"):
        folder = results / name
        given = replace(outcome(), folder=folder)
        save(given.case, folder / "case")
        note_run(folder, Asked(Program(f"{name}.py", ())))
        if name != "third-1":
            save(given.minimal, folder / "minimal")
            (folder / "repro.py").write_text(given.repro.text)
            write_reports(folder, given)
    return results


@pytest.fixture
def runs(refusing, made):
    shutil.copytree(made, refusing.folder / "minify-out")
    return refusing


def test_runs_are_listed(runs, monkeypatch):
    monkeypatch.chdir(runs.folder)
    lines = [line.split() for line in runs.minify("list").stdout.splitlines()]
    listed = {line[0]: " ".join(line) for line in lines if line and line[0].startswith("minify-out")}
    assert len(listed) == 3 and "2 -> 1 ops" in listed["minify-out/first-1"]
    assert "interrupted" in listed["minify-out/third-1"] and "no lowering for tanh" in listed["minify-out/third-1"]


def test_in_a_narrow_terminal_the_folder_is_whole(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs.folder)
    (runs.folder / "minify-out" / "second-1").rename(runs.folder / "minify-out" / ("second" * 10))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    list_command([])
    lines = capsys.readouterr().out.splitlines()
    assert f"minify-out/{'second' * 10}" in lines and all(len(line) <= 80 for line in lines)
    assert "no lowering for tanh" in " ".join(" ".join(lines).split())


def test_a_new_folder_of_results_is_ignored_by_git_and_goes_when_it_is_empty(tmp_path):
    given, made = RunFolder(tmp_path / "given" / "one"), RunFolder(tmp_path / "minify-out" / "one")
    for folder in (given, made):
        make_folder(folder)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob(".gitignore")] == ["minify-out/.gitignore"]
    (made.path.parent / ".gitignore").write_text("!*\n")
    made.clear(keep=False)
    assert tree(tmp_path / "minify-out"), "the user's own"
    shutil.rmtree(tmp_path / "minify-out")
    make_folder(made).clear(keep=False)
    assert not (tmp_path / "minify-out").exists()


def test_no_link_is_followed(runs, monkeypatch):
    monkeypatch.chdir(runs.folder)
    elsewhere = (runs.folder / "minify-out").rename(runs.folder / "elsewhere")
    results = runs.folder / "minify-out"
    results.mkdir()
    (results / "first-1").symlink_to(elsewhere / "first-1")
    (results / "all").symlink_to(elsewhere)
    (elsewhere / "second-1").rename(elsewhere / "graph-1")
    before = tree(elsewhere)
    done = runs.minify("list")
    assert done.code == 0 and "first-1" not in done.stdout and "graph-1" not in done.stdout
    assert tree(elsewhere) == before
    assert "third-1" in runs.minify("list", "minify-out/all").stdout, "a link that the user names"
    third = (elsewhere / "third-1").rename(results / "third-1")
    (third / "case").rename(elsewhere / "case")
    (third / "case").symlink_to(elsewhere / "case")
    assert "third-1" in (told := runs.minify("list").stdout) and "no lowering" not in told


def test_a_listed_message_moves_no_cursor(runs):
    path = runs.folder / "minify-out" / "first-1" / "result.json"
    result = json.loads(path.read_text())
    result["failure"] |= {"message": "lost\nforged  9 runs \x1b]0;owned\x07"}
    path.write_text(json.dumps({**result, "status": "red\x1b[2Juced"}))
    done = runs.minify("list", "minify-out")
    assert done.code == 0 and "\x1b" not in done.stdout and "\x07" not in done.stdout
    assert not any(line.startswith("forged") for line in done.stdout.splitlines())


def test_folders_of_others_are_none(refusing):
    refusing.write("{}", "minify-out/notes/run.json")
    refusing.write("not json", "minify-out/other/result.json")
    assert "notes" not in refusing.minify("list").stdout
    done = refusing.minify("list", "gone")
    assert done.code == 2 and "gone" in done.stderr


@pytest.mark.parametrize("agreed", [False, True])
def test_a_finished_run_is_not_reduced_again_in_its_place(runs, monkeypatch, agreed):
    done = runs.folder / "minify-out" / "first-1"
    reduced = []
    monkeypatch.setattr("minifier.flow.run.minify_case", lambda folder, run, out: reduced.append(out) or outcome())
    monkeypatch.setattr("minifier.flow.cli.running.prepared", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr("minifier.flow.cli.console.Console.ask", lambda *_: agreed)
    told = runs.minify("reduce", "--trust", done)
    assert told.code == 0 and (agreed or "first-1/repro.py" in told.stderr), told.stderr
    assert len(reduced) == agreed and all(not (runs.folder / out).exists() for out in reduced), "a new folder"
    runs.minify("reduce", "--trust", "--out", runs.out, done)
    assert reduced[-1] == runs.out
    result = json.loads((done / "result.json").read_text())
    (done / "result.json").write_text(json.dumps({**result, "passes": {"sizes": "unfinished"}}))
    runs.minify("reduce", "--trust", done)
    assert reduced[-1] is None, "a run whose passes were cut off goes on"
    (done / "result.json").unlink()
    runs.minify("reduce", "--trust", done)
    assert reduced[-1] is None, "an interrupted run goes on"


def test_what_was_reduced_as_source_has_no_case_to_reduce(runs):
    done = runs.folder / "minify-out" / "first-1"
    shutil.rmtree(done / "case")
    told = runs.minify("reduce", done)
    assert told.code == 2 and "`minify run`" in told.stderr
