"""The script that prints figures of the code: how it counts calls, cycles and texts."""

from __future__ import annotations

import ast

import figures


def test_calls_are_counted_from_the_command_to_the_search_and_from_there_to_the_backend():
    stack = [
        ("flow/cli/entry.py", "main"),
        ("flow/cli/commands.py", "run"),
        ("flow/run.py", "minify"),
        ("process/child.py", "forked"),
        ("search/walk.py", "run"),
        ("search/walk.py", "_probe"),
        ("reduction/probe/evaluate.py", "evaluate"),
    ]
    to_search, to_backend = figures.calls(stack)
    assert [name for _, name in to_search] == ["minify", "forked", "run"]
    assert [name for _, name in to_backend] == ["evaluate"]
    assert figures.described(to_search) == "3, 1 of them in process/"


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings():
    assert (
        figures.code_lines(
            '"""A\nB."""\n\n# c\nx = """d\ne"""  # f\n\ndef g():\n    """H."""\n    return (\n        1)\n'
        )
        == 5
    )


def test_calls_that_climb_and_packages_that_are_entered_again():
    order = [["cli"], ["flow"], ["a", "b"], ["base"]]
    assert figures.layers()[1] == ["flow"]
    assert figures.climbs_and_returns(["cli", "flow", "flow", "base", "flow", "a", "b", "base"], order) == (1, 2)


def test_calls_that_make_a_process_are_found():
    path = figures.PACKAGE / "some" / "file.py"
    module = ast.parse("import os, subprocess\nos.fork()\nrun = subprocess.run\nsubprocess.run(['x'])\nos.kill(1, 2)\n")
    assert figures.starts({path: module}) == ["some/file.py:2 os.fork", "some/file.py:4 subprocess.run"]


def test_a_cycle_is_found():
    assert figures.cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(figures.cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_neither_packages_nor_modules_import_themselves():
    packages = figures.imports(squashed=True)
    assert "minifier.repro" in packages["minifier.flow"] and figures.cycle(packages) == []
    modules = figures.imports(squashed=False)
    assert "minifier.flow.cli.listing" in modules["minifier.flow.cli.doctor"] and figures.cycle(modules) == []


def test_texts_of_the_code_are_told_apart(tmp_path):
    file = tmp_path / "it.py"
    text = 'def f():\n    """Return such a thing."""\n    return "what one has read"  # those that stay\n'
    file.write_text(text)
    parsed = {file: ast.parse(text)}
    assert list(figures.docstrings(parsed)) == ["Return such a thing."]
    assert list(figures.strings(parsed)) == ["what one has read"]
    assert list(figures.comments(iter([file]))) == ["those that stay"]
    assert figures.vague_per_hundred(["what one has read"]) == 50


def test_the_table_of_the_page_stands_between_its_marks_and_is_replaced():
    old = figures.with_table("Above.\n\n<!-- figures -->\n<!-- end of figures -->\n\nBelow.\n", [])
    new = figures.with_table(old, [figures.Figure("files", "3", on_page=True), figures.Figure("calls", "4")])
    assert new.startswith("Above.") and new.endswith("Below.\n") and new.count("<!-- figures -->") == 1
    assert "| files | 3 |" in new and "calls" not in new
