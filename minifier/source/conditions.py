"""What a candidate has to keep beside the failure's fingerprint, so that its failure is not another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from minifier.failure.frames import own_traced_line
from minifier.probe.children import ChildEnd

_LINE_NUMBER = re.compile(r"line \d+")


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A run of a source. `is_inlined`: it has definitions of a module in the place of the module's import."""

    source: str
    end: ChildEnd
    is_inlined: bool = False

    @property
    def links(self) -> Sequence[dict[str, Any]]:
        """The exceptions of the run."""
        links: Sequence[dict[str, Any]] = (self.end.result or {}).get("links", ())
        return links


class Condition:
    """A condition on candidates. `whole` are the texts of definitions that stay as they are, or go."""

    whole: tuple[str, ...] = ()

    def kept_in(self, source: str) -> tuple[str, ...]:
        """Return the names of the definitions in the source that stay as they are."""
        return ()

    def may_hold(self, source: str) -> bool:
        """Return whether a run of the source can meet the condition."""
        return True

    def holds(self, run: SourceRun) -> bool:
        """Return whether a run, which shows the fingerprint, meets the condition."""
        return True

    def accept(self, run: SourceRun) -> None:
        """Take in a source that shows the failure."""


class SameEvidence(Condition):
    """The messages of the exceptions, without numbers of lines, and the script's functions on their stacks are equal.

    Runs of one failure with the same graph, inputs and code agree in all of this, other numbers included.
    """

    def __init__(self, first: SourceRun) -> None:
        self._first = self._evidence(first)

    def holds(self, run: SourceRun) -> bool:
        """Return whether the run says the same."""
        return self._evidence(run) == self._first

    @staticmethod
    def _evidence(run: SourceRun) -> object:
        return [
            (
                _LINE_NUMBER.sub("line", link["message"]),
                [frame[1] for frame in link["frames"] if frame[0] == "__main__"],
            )
            for link in run.links
        ]


class SameLine(Condition):
    """The line of the script that Dynamo was tracing is the first run's, or what edits made of this line.

    If the line is gone, a new line stands for it that resembles it more than any other line that is gone. A line that
    the script had elsewhere does not.
    """

    def __init__(self, first: SourceRun) -> None:
        self._line = _without_comment(own_traced_line(first.links))
        self._accepted = {self._line}
        self._last = self._known = _lines(first.source)

    def holds(self, run: SourceRun) -> bool:
        """Return whether Dynamo failed at this line."""
        line, lines = _without_comment(own_traced_line(run.links)), _lines(run.source)
        if line in self._accepted or not line or not self._line:
            return line in self._accepted
        if line in self._known or self._line in lines:
            return False
        return _likeness(line, self._line) >= max(_likeness(line, gone) for gone in {self._line, *self._last - lines})

    def accept(self, run: SourceRun) -> None:
        """Follow the line to its new form."""
        self._line = _without_comment(own_traced_line(run.links))
        self._accepted.add(self._line)
        self._last = _lines(run.source)
        self._known = self._known | self._last


def _lines(source: str) -> set[str]:
    return {_without_comment(line) for line in source.splitlines()}


def _without_comment(line: str) -> str:
    return line.partition("  #")[0].strip()


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
