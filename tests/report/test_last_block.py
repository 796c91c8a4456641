"""The last lines of a run: their rows, and how they stand on a screen. Their words are in tests/goldens/screens."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace
from pathlib import Path

from outcomes import outcome, summed_up
from rich.console import Console as RichConsole

from minifier.flow.cli.console import Console
from minifier.repro.report.last_block import last_block, lines_of
from minifier.repro.report.outcome import Outcome

NO_REPRO = {"repro": None, "verification": None}


def rows(given: Outcome) -> dict[str, str]:
    return {row.label: row.text for row in last_block(given)}


def test_no_word_is_broken_and_a_long_command_has_a_line_of_its_own():
    given = outcome()
    folder = Path.cwd() / "minify-out" / ("a-script-with-a-long-name" * 2)
    lines = [line for line, _ in lines_of(last_block(replace(given, folder=folder)), 60)]
    assert f"minify report --github minify-out/{folder.name}" in lines
    assert all(len(line) <= 60 for line in lines if folder.name not in line)


def test_the_next_command_can_be_copied_whatever_the_folder_is_called():
    folder = Path.cwd() / "minify-out" / "my run $1"
    assert shlex.split(rows(replace(outcome(), folder=folder))["next"])[-1] == str(folder.relative_to(Path.cwd()))


def test_in_a_pipe_each_row_is_a_line():
    text = io.StringIO()
    Console(to=RichConsole(file=text, force_terminal=False, width=40)).final(outcome())
    assert len(text.getvalue().splitlines()) == len(last_block(outcome()))


def test_each_place_has_a_line():
    given = outcome()
    tanh = replace(given.minimal.graph.ops[0], name="again", place="model.py:15")
    nodes = (*given.minimal.graph.nodes, tanh)
    given = replace(given, minimal=replace(given.minimal, graph=replace(given.minimal.graph, nodes=nodes)))
    assert rows(given)["where"].splitlines() == ["model.py:14", "model.py:15"]


def test_what_was_not_reduced_is_at_a_line_of_the_script():
    assert "failing.py:7" in rows(replace(outcome(), **NO_REPRO, minimal=None, summary=None))["where"]


def test_a_path_outside_of_the_current_folder_is_absolute(tmp_path):
    assert rows(replace(outcome(), folder=tmp_path))["repro"] == str(tmp_path / "repro.py")


def test_only_doubt_about_the_cause_and_hidden_passes_have_rows():
    given = summed_up(outcome(), cause="the ops at fault are not known")
    assert rows(summed_up(given, guilt="none"))["cause"] == "the ops at fault are not known"
    for guilt in ("proved", "repeated"):  # one failure, which may show several times
        assert not {"cause", "note"} & rows(summed_up(given, guilt=guilt)).keys()
    assert "dtypes" in rows(summed_up(given, hidden=("dtypes", "values")))["note"]


def test_an_error_that_ended_several_steps_is_told_once():
    traces = ("Traceback ...\nKeyError: 1", "Traceback of another step\nKeyError: 1", "Traceback ...\nValueError: 2")
    notes = [row.text for row in last_block(replace(outcome(), errors=traces)) if row.label == "note"]
    assert ["KeyError" in note for note in notes] == [True, False]
