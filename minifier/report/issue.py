"""A report as an issue on GitHub: a title, and a body of a size that GitHub takes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.failure.normalise import shortened
from minifier.report.blocks import Report
from minifier.report.markdown import LIMIT, markdown
from minifier.report.redact import Redactor

ISSUE = "issue.md"
_MAX_TITLE_CHARACTERS = 256  # of an issue on GitHub


@dataclass(frozen=True, slots=True)
class Issue:
    """The title and the body of an issue, without secrets, and the repository that it is for; "" if that is unknown."""

    title: str
    body: str
    repository: str = ""

    def command(self, body: Path) -> str:
        """Return the command of GitHub's client that files the issue, with its body in this file."""
        where = ["--repo", self.repository] if self.repository else []
        return shlex.join(["gh", "issue", "create", *where, "--title", self.title, "--body-file", str(body)])


def issue_of(report: Report, redactor: Redactor, repository: str = "") -> Issue:
    """Return the issue that the report makes. The title stands in a field of its own, not in the body."""
    title = shortened(redactor.clean(ISSUE, report.title), _MAX_TITLE_CHARACTERS)
    return Issue(title, cleaned_markdown(ISSUE, replace(report, title=""), redactor), repository)


def cleaned_markdown(file: str, report: Report, redactor: Redactor) -> str:
    """Return the report as a file's Markdown without secrets, in at most `LIMIT` characters."""
    text = redactor.clean(file, markdown(report))
    if len(text) <= LIMIT:
        return text
    return redactor.clean(file, markdown(report, 2 * LIMIT - len(text)))  # placeholders are longer than their marks
