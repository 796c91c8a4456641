"""A report as an issue: a title for a field of its own, and a body of a size that GitHub takes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import small_case
from outcomes import outcome

from minifier.data.case import Level
from minifier.data.case.store import save
from minifier.repro.report.markdown import Issue, Report, Section, fence, issue_of
from minifier.repro.report.write_reports import write_reports

KEY = "ghp_" + "a1B2c3D4e5F6" * 3


def issue(title: str = "[b] it fails", text: str = "words\n" * 5) -> Issue:
    return issue_of(Report(title, (Section("Describe the bug", ("It fails.", fence(text))),)))


@pytest.mark.parametrize("text", ["word " * 100_000, "word\n" * 100_000])
def test_a_body_is_never_longer_than_github_takes(text):
    made = issue(text=text)
    assert len(made.body) <= 65_536
    assert made.body.startswith("## "), "the title is no part of it"


def test_a_title_is_a_line_that_github_takes():
    assert len(issue(title="[b] " + "long " * 100).title) <= 256


def test_the_command_has_the_title_as_one_word():
    command = Issue("[b] can't compile `x`; $(true)", "body", "acme/npu").command(Path("minify-out/it-1/issue.md"))
    assert shlex.split(command) == [
        *("gh", "issue", "create", "--repo", "acme/npu", "--title", "[b] can't compile `x`; $(true)"),
        *("--body-file", "minify-out/it-1/issue.md"),
    ]


def test_a_finished_run_makes_an_issue_only_if_one_is_wanted(tmp_path):
    failure = replace(small_case().failure, message=f"no access with {KEY}")
    given = outcome(failure, level=Level.SOURCE)  # whose title has the message
    for name in ("case", "minimal"):
        save(small_case(), tmp_path / name)
    assert write_reports(tmp_path, given).issue is None
    made = write_reports(tmp_path, replace(given, folder=tmp_path), with_issue=True).issue
    report = (tmp_path / "report.md").read_text()
    assert made.body in report.partition("\n\n")[2] and "bundle.zip" not in made.body
    assert KEY[:8] not in made.title + made.body and "<secret>" in made.title
