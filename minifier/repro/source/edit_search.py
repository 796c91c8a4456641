"""Applies edits to a source: merges the edits of a pass, gallops over them, and remembers the refused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from minifier import search
from minifier.capturing.slicing.module_statements import missing_attributes
from minifier.data.failure import Verdict
from minifier.repro.source.script import Edit, Script, is_of_libcst
from minifier.repro.source.statement_tree import deep_sources, tree_of


class Lab(Protocol):
    """Probes source texts."""

    phase: str
    moved: Sequence[tuple[str, str]]  # functions of the script whose statements are in other functions by now

    @property
    def frozen(self) -> Collection[str]:
        """The texts of statements that no edit changes."""

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


class Stopped(Exception):
    """The budget is used up, or the search was interrupted."""


Lister = Callable[[Script], Iterable[Edit]]
Key = tuple[str, ...]
"""A refused edit: the pass, the edit's own text, and how often that had occurred before."""


@dataclass
class _Galloping:
    """Presents edits to the search: an atom is an edit that is not made. `text_of` makes the others.

    No source of `seen` comes back. `missing` are the attributes that the whole script reads and does not bind.
    """

    lab: Lab
    text_of: Callable[[frozenset[int]], str | None]
    size: int
    seen: Collection[str]
    missing: frozenset[str]
    refused: dict[frozenset[int], Verdict] = field(default_factory=dict)  # by the edits made

    @property
    def workers(self) -> int:
        return self.lab.workers

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        """Return for each set of edits left whether the failure shows after the other edits."""
        made = [frozenset(range(self.size)) - left for left in candidates]
        texts = [self.text_of(numbers) for numbers in made]
        possible = [text is not None and text not in self.seen and self._can_pass(text) for text in texts]
        held = readable_and_held(self.lab, [text or "" for text, can in zip(texts, possible, strict=True) if can])
        answers = [can and held.pop(0) for can in possible]
        self.refused |= {
            numbers: self.lab.verdict(text or "") or Verdict.INVALID
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
        tree_of(source, lab.frozen)
    except Exception as error:  # noqa: BLE001 - libcst raises errors of many types
        if not is_of_libcst(error):
            lab.warn("a candidate could not be read, and was skipped", error)
        return False
    return True


class EditSearch:
    """A source, and the edits of it that were refused."""

    def __init__(self, lab: Lab, source: str, budget: search.Budget) -> None:
        self.lab, self.source, self.budget = lab, source, budget
        self._exhausted: dict[str, str] = {}  # by the name of a pass, the source that has no more of its edits
        self._seen = {source}
        self._missing = missing_attributes(source)
        self._refused: dict[Key, Verdict] = {}
        self._open: set[Key] = set()  # refused edits that are tried once more
        self._reopened: set[Key] = set()
        self._script: Script | None = None

    @property
    def script(self) -> Script:
        """The parsed source."""
        known, frozen = self._script, frozenset(self.lab.frozen)
        if known is None or (known.source, known.frozen) != (self.source, frozen):
            known = self._script = Script(self.source, frozen)
        return known

    def run(self, name: str, lister: Lister, is_doubtful: bool = False) -> None:
        """Make all edits of a pass that keep the failure. Raises Stopped.

        `is_doubtful`: most edits are refused, so that none is first tried together with others.
        """
        while self._step(name, lister, is_doubtful):
            pass

    def reopen(self) -> bool:
        """Let `run` try refused edits again that may succeed by now; return whether there are any.

        An edit after which the script fails in another way has mostly broken it, and would again.
        """
        again = {key for key, verdict in self._refused.items() if verdict is Verdict.PASS} - self._reopened
        self._open |= again
        self._reopened |= again
        self._exhausted.clear()
        return bool(again)

    def _step(self, name: str, lister: Lister, is_doubtful: bool) -> bool:
        self.lab.phase = name
        if self._exhausted.get(name) == self.source:
            return False
        with deep_sources():
            keys = self._untried(name, lister)
            edits = self._compatible(keys)
            if not edits:
                self._exhausted[name] = self.source
                return False
            self._make(edits, [keys[edit] for edit in edits], is_doubtful)
        return True

    def _untried(self, name: str, lister: Lister) -> dict[Edit, Key]:
        """Return the edits of which it is not known what becomes of them, with their keys."""
        keys: dict[Edit, Key] = {}
        counts: Counter[tuple[str, ...]] = Counter()
        for edit in self._listed(name, lister):
            if not (text := self.script.key(edit)):
                continue
            counts[text] += 1
            key = (name, str(counts[text]), *text)
            if key not in self._refused or key in self._open:
                keys[edit] = key
        return keys

    def _listed(self, name: str, lister: Lister) -> Iterable[Edit]:
        try:
            yield from filter(self.script.is_allowed, lister(self.script))
        except Exception as error:  # noqa: BLE001 - the source so far stays
            self.lab.warn(f"the pass {name} could not list all its edits", error)

    def _compatible(self, keys: dict[Edit, Key]) -> list[Edit]:
        """Return edits that do not touch, those first of whose line none was refused."""
        refused = Counter(key[2] for key in self._refused)
        taken: list[tuple[int, int]] = []
        chosen: list[Edit] = []
        for edit in sorted(keys, key=lambda edit: refused[keys[edit][2]] if keys[edit][2] else 0):
            spans = self.script.span(edit)
            if not any(start < end_ and start_ < end for start, end in spans for start_, end_ in taken):
                chosen.append(edit)
                taken += spans
        return chosen

    def _make(self, edits: Sequence[Edit], keys: Sequence[Key], is_doubtful: bool) -> None:
        """Make as many of the edits as keep the failure. Raises Stopped."""
        before, script = self.lab.moved, self.script

        def text_of(made: Iterable[int]) -> str | None:
            return script.after(edits[number] for number in sorted(made))

        self.lab.moved = (*before, *(names for edit in edits for names in edit.moved))
        galloping = _Galloping(self.lab, text_of, len(edits), self._seen, self._missing)
        first = 1 if is_doubtful else max(1, len(edits) // 2)
        left, ending = search.gallop(len(edits), galloping, first=first, budget=self.budget.after(self.lab.total))
        made = [number for number in range(len(edits)) if number not in left]
        self.lab.moved = (*before, *(names for number in made for names in edits[number].moved))
        for number in left:
            self._refused[keys[number]] = galloping.verdict(number) if ending is None else Verdict.UNRESOLVED
            self._open.discard(keys[number])
        if made and (text := text_of(made)) is not None:
            self.apply(text)
        if ending is not None:
            raise Stopped

    def takes(self, text: str) -> bool:
        """Take a text that keeps the failure for the source. Raises Stopped."""
        if self.budget.ending(self.lab.total) is not None:
            raise Stopped
        if text in self._seen or not readable_and_held(self.lab, [text])[0]:
            return False
        self.apply(text)
        return True

    def apply(self, text: str) -> None:
        """Change the source."""
        self.source = text
        self._seen.add(text)
