"""Applies rows of edits to a source: merges the edits of a row, gallops over them, and remembers the refused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from minifier import search
from minifier.capturing.slicing.module_statements import missing_attributes
from minifier.data.failure import Verdict
from minifier.repro.source.patches import Located, Patch, is_of_libcst, merged, patched
from minifier.repro.source.statement_tree import deep_sources, tree_of

_MAX_TRIES = 2  # of an edit: when it is first met, and when nothing else can be done any more


class Lab(Protocol):
    """Probes source texts."""

    phase: str
    moved: Sequence[tuple[str, str]]  # functions of the script whose statements are in other functions by now

    @property
    def whole(self) -> Sequence[str]:
        """The texts of definitions that no edit changes."""

    @property
    def workers(self) -> int:
        """The number of texts that are probed at once."""

    @property
    def total(self) -> int:
        """The number of probes."""

    def holds(self, sources: Sequence[str]) -> Sequence[bool]:
        """Return for each text whether the sought failure shows. No text is probed twice."""

    def verdict(self, source: str) -> Verdict | None:
        """Return the verdict on a text; None if `holds` was not asked about it."""

    def warn(self, sentence: str, error: Exception) -> None:
        """Note an error of this tool in the search, which goes on."""


@dataclass(frozen=True, slots=True)
class PassRow:
    """A family of edits. `patches(located)` yields them for a source, None for an edit that cannot be made.

    `is_doubtful`: most edits are refused, so that none is first tried together with others. `is_adaptive`: which edits
    come next depends on what became of the last.
    """

    name: str
    patches: Callable[[Located], Iterable[Patch | None]]
    is_doubtful: bool = False
    is_adaptive: bool = False


@dataclass(frozen=True, slots=True)
class _Refusal:
    """How an edit ended that did not keep the failure. `is_open`: it is tried once more."""

    verdict: Verdict
    tries: int = 1
    is_open: bool = False


class Stopped(Exception):
    """The budget is used up, or the search was interrupted."""


@dataclass
class _Galloping:
    """Presents edits to the search: an atom is an edit that is not made. `text_of` makes the others.

    No source of `seen` comes back. `missing` are the attributes that the whole script reads and does not bind.
    """

    lab: Lab
    text_of: Callable[[frozenset[int]], str]
    size: int
    seen: Collection[str]
    missing: frozenset[str]
    refused: dict[frozenset[int], Verdict] = field(default_factory=dict)  # by the edits made

    @property
    def workers(self) -> int:
        return self.lab.workers

    def made(self, left: frozenset[int]) -> frozenset[int]:
        """Return the edits that are not left."""
        return frozenset(range(self.size)) - left

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        """Return for each set of edits left whether the failure shows after the other edits."""
        made = [self.made(left) for left in candidates]
        texts = [self.text_of(numbers) for numbers in made]
        possible = [text not in self.seen and self._can_pass(text) for text in texts]
        held = readable_and_held(self.lab, [text for text, can in zip(texts, possible, strict=True) if can])
        answers = [can and held.pop(0) for can in possible]
        self.refused |= {
            numbers: self.lab.verdict(text) or Verdict.INVALID
            for numbers, text, holds in zip(made, texts, answers, strict=True)
            if not holds
        }
        return answers

    def _can_pass(self, text: str) -> bool:
        """Return whether each attribute of `self` is bound: without it the script most likely raises AttributeError."""
        try:
            return missing_attributes(text) <= self.missing
        except (SyntaxError, ValueError):
            return False

    def verdict(self, number: int) -> Verdict:
        """Return the verdict on the fewest edits that were refused with this one."""
        fewest = min((made for made in self.refused if number in made), key=len, default=None)
        return Verdict.UNRESOLVED if fewest is None else self.refused[fewest]


def readable_and_held(lab: Lab, sources: Sequence[str]) -> list[bool]:
    """Return for each text whether the sought failure shows, and libcst can read it."""
    return [held and is_readable(lab, text) for text, held in zip(sources, lab.holds(sources), strict=True)]


def is_readable(lab: Lab, source: str) -> bool:
    """Return whether libcst can read the source: its bugs must not end the reduction. `lab` is warned of our own."""
    try:
        tree_of(source, lab.whole)
    except Exception as error:  # noqa: BLE001 - libcst raises errors of many types
        if not is_of_libcst(error):
            lab.warn("a candidate could not be read, and was skipped", error)
        return False
    return True


class EditSearch:
    """A source, and the edits of it that were refused.

    Every change of the source is a patch, so that refused edits keep their places.
    """

    def __init__(self, lab: Lab, source: str, budget: search.Budget) -> None:
        self.lab, self.source, self.budget = lab, source, budget
        self._located = Located("")
        self._exhausted: dict[PassRow, str] = {}  # the source that has no more of its edits
        self._seen = {source}
        self._missing = missing_attributes(source)
        self._refusals: dict[tuple[str, Patch], _Refusal] = {}

    def run(self, row: PassRow) -> None:
        """Make all edits of the row that keep the failure. Raises Stopped."""
        while self.step(row):
            pass

    def step(self, row: PassRow) -> bool:
        """Try edits of the row that can be made together. Return whether others may follow. Raises Stopped."""
        self.lab.phase = row.name
        if self._exhausted.get(row) == self.source and not row.is_adaptive:
            return False
        listed = self._listed(row)
        edits = self._compatible(row, listed)
        if edits:
            self._make(row, edits)
        else:
            self._exhausted[row] = self.source
        return bool(edits) or (row.is_adaptive and bool(listed))

    def reopen(self) -> bool:
        """Let `run` try refused edits again that may succeed by now; return whether there are any.

        An edit after which the script fails in another way has mostly broken it, and would again.
        """
        again = {
            key: replace(refusal, is_open=True)
            for key, refusal in self._refusals.items()
            if refusal.verdict is Verdict.PASS and refusal.tries < _MAX_TRIES and not refusal.is_open
        }
        self._refusals |= again
        self._exhausted.clear()
        return bool(again)

    def _listed(self, row: PassRow) -> list[Patch]:
        with deep_sources():
            if self._located.source != self.source or self._located.whole != frozenset(self.lab.whole):
                self._located = Located(self.source, self.lab.whole)
            return list(dict.fromkeys(edit for edit in row.patches(self._located) if edit is not None and edit.spans))

    def _compatible(self, row: PassRow, listed: Sequence[Patch]) -> list[Patch]:
        """Return edits that can be made together, the most hopeful first."""
        chosen: list[Patch] = []
        for edit in sorted(self._untried(row, listed), key=self._doubts(row)):
            if not any(edit.touches(other) for other in chosen):
                chosen.append(edit)
        return chosen

    def _untried(self, row: PassRow, listed: Sequence[Patch]) -> Iterator[Patch]:
        """Yield the edits of which it is not known what becomes of them."""
        for edit in listed:
            refusal = self._refusals.get((row.name, edit))
            code = patched(self.source, edit)
            if (refusal is not None and not refusal.is_open) or code in self._seen:
                continue
            verdict = self.lab.verdict(code)
            if verdict is None or verdict is Verdict.SAME:
                yield edit
            else:
                self.refuse(row, edit, verdict)

    def _doubts(self, row: PassRow) -> Callable[[Patch], int]:
        """Return a function that counts what speaks against an edit: edits of its line that broke the script, say."""
        broken = Counter(
            _line(self.source, edit)
            for (name, edit), refusal in self._refusals.items()
            if name == row.name and refusal.verdict is not Verdict.PASS
        )
        refused = self._refusals
        return lambda edit: broken[_line(self.source, edit)] + ((row.name, edit) in refused)

    def _make(self, row: PassRow, edits: Sequence[Patch]) -> None:
        before = self.lab.moved
        self.lab.moved = (*before, *merged(edits).moved)
        doubts = self._doubts(row)
        hopeful = 1 if row.is_doubtful else sum(not doubts(edit) for edit in edits)
        source = self.source
        left, ended = self.gallop(
            len(edits), lambda made: patched(source, merged(edits[number] for number in made)), max(1, hopeful)
        )
        made = merged(edit for number, edit in enumerate(edits) if number not in left)
        self.lab.moved = (*before, *made.moved)
        for number, verdict in left.items():
            self.refuse(row, edits[number], verdict)
        self.apply(made)
        if ended:
            raise Stopped

    def gallop(
        self, size: int, text_of: Callable[[frozenset[int]], str], first: int
    ) -> tuple[dict[int, Verdict], bool]:
        """Make as many of the numbered edits as keep the failure, `first` at once to begin with.

        Return the verdicts on the others, and whether the search was stopped before it had tried them all.
        """
        galloping = _Galloping(self.lab, text_of, size, self._seen, self._missing)
        left, ending = search.gallop(size, galloping, first=first, budget=self.budget.after(self.lab.total))
        is_known = ending is None
        return {number: galloping.verdict(number) if is_known else Verdict.UNRESOLVED for number in left}, not is_known

    def refuse(self, row: PassRow, edit: Patch, verdict: Verdict) -> None:
        """Remember how an edit ended."""
        if not edit.spans:
            return
        key = row.name, edit
        tries = self._refusals[key].tries + 1 if key in self._refusals else 1
        self._refusals[key] = _Refusal(verdict, tries)

    def check_budget(self) -> None:
        """Raise Stopped if the budget is used up."""
        if self.budget.ending(self.lab.total) is not None:
            raise Stopped

    def apply(self, patch: Patch) -> None:
        """Change the source."""
        self._refusals = {
            (name, moved): refusal
            for (name, edit), refusal in self._refusals.items()
            if (moved := edit.after(patch)) is not None
        }
        self.source = patched(self.source, patch)
        self._seen.add(self.source)


def _line(source: str, edit: Patch) -> int:
    """Return the number of characters up to the first line that the edit changes."""
    return source.rfind("\n", 0, edit.spans[0].start) + 1
