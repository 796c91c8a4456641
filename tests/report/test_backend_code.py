"""Of whose files the source lines are in a report: the backend's, however it is installed, and nobody else's."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from case_samples import small_case
from outcomes import outcome

from minifier.data.case import BackendSource
from minifier.data.case.store import save
from minifier.repro.report.outcome import files_of_backend
from minifier.repro.report.write_reports import write_reports

BACKEND = small_case().backend


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder on PYTHONPATH with a package, a module, and a namespace that has a package and somebody else's."""
    for path in ("oddlib/__init__.py", "oddlib/deep/lowering.py", "single.py", "space/ours/__init__.py", "space/x.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("import oddlib", ["oddlib"]),
        ("import oddlib.deep.lowering", ["oddlib"]),
        ("from oddlib import backend", ["oddlib"]),
        ("import single", ["single.py"]),
        ("import space.ours", ["space/ours"]),
        ("import gone_from_here", []),
    ],
)
def test_the_files_of_a_backend_are_those_of_its_package(checkout, line, files):
    found = files_of_backend(replace(BACKEND, imports=(line,)))
    assert found == tuple(str(checkout / file) for file in files) and "oddlib" not in sys.modules


def test_an_entry_point_is_found_by_its_distribution():
    backend = replace(BACKEND, reach=BackendSource.ENTRY_POINT, imports=(), distribution="minifier-backends")
    assert [path.rpartition("/")[2] for path in files_of_backend(backend)] == ["minifier_backends"]


def test_a_backend_of_the_script_has_no_files_of_its_own(checkout):
    assert files_of_backend(replace(BACKEND, reach=BackendSource.DEFINED, imports=("import oddlib",))) == ()


def test_a_report_shows_the_lines_of_the_backend_and_not_those_of_the_script(checkout, tmp_path):
    trace = (
        f'Traceback (most recent call last):\n  File "{checkout}/train.py", line 3, in <module>\n    secret_step()\n'
        f'  File "{checkout}/oddlib/deep/lowering.py", line 7, in lower\n    raise RuntimeError(odd_reason)\n'
        "RuntimeError: no lowering for tanh\n"
    )
    failure = replace(small_case().failure, traceback=trace)
    given = outcome(failure)
    save(given.minimal, tmp_path / "minimal")
    write_reports(tmp_path, replace(given, folder=tmp_path))
    text = (tmp_path / "report.md").read_text()
    assert "raise RuntimeError(odd_reason)" in text and "secret_step" not in text
