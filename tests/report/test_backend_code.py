"""Of whose files the source lines are in a report: the backend's, however it is installed, and nobody else's."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
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


def test_a_report_shows_the_lines_of_the_backend_but_not_the_scripts_and_torchs_on_a_click(checkout, tmp_path):
    of_torch = f'  File "{Path(torch.__file__).parent}/_dynamo/calls.py", line 3, in call\n    return compile_it()\n'
    trace = (
        f'Traceback (most recent call last):\n  File "{checkout}/train.py", line 3, in <module>\n    secret_step()\n'
        f'{of_torch * 2}  File "{checkout}/oddlib/deep/lowering.py", line 7, in lower\n    go_on(odd_reason)\n'
        f"{of_torch.replace('_dynamo', '_inductor')}{of_torch * 6}RuntimeError: no lowering for tanh\n"
    )
    failure = replace(small_case().failure, traceback=trace)
    given = outcome(failure)
    save(given.minimal, tmp_path / "minimal")
    write_reports(tmp_path, replace(given, folder=tmp_path))
    text = (tmp_path / "report.md").read_text()
    assert "go_on(odd_reason)" in text and "secret_step" not in text
    shown, _, rest = text.partition("<summary>With the frames of torch")
    counts = re.findall(r"\[(\d) frames of torch\]", shown)
    assert (counts, shown.count("compile_it()"), rest.count("compile_it()")) == (["5"], 4, 9 + 4 + 9)
