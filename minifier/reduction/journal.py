"""The journal of a reduction: a line for each probe that has ended, and, in a file beside it while the reduction lasts,
one ahead of it. So whatever ends the process, or the machine, what is known is known, and what ended it is too."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minifier.errors import UsageError
from minifier.failure import Verdict

JOURNAL, BEGUN = "journal.jsonl", "begun.jsonl"
BESIDE_THE_SEARCH = ("check", "bodies", "parts", "simplify")  # phases whose answers are not about the graph's ops
_DYING = 5.0  # seconds
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TRIES = 5  # of a candidate during which the process was killed each time: in a container that is all that is seen


@dataclass(frozen=True, slots=True)
class Entry:
    """A probe, by what it was made for: its phase, the positions of its ops as ranges, and, beyond the search for ops,
    a digest of the whole candidate."""

    phase: str
    ops: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier run on the same Case left: whether the failure showed, by positions of ops and by digest; and the
    candidates that are not to be tried again, as the machine went down while they were. `tries` has, of what did not
    show it, how often that was tried: of a failure that comes and goes an answer is worth no more. `passed` has the
    digests of candidates without any failure, `counts` all verdicts."""

    ops: dict[str, bool] = field(default_factory=dict)
    made: dict[str, bool] = field(default_factory=dict)
    skipped: tuple[Entry, ...] = ()
    tries: dict[str, int] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    counts: Counter[Verdict] = field(default_factory=Counter)

    def of_ops(self, tries: int) -> dict[str, bool]:
        """Answers about ops, those without the failure only if they were tried so often."""
        return {ops: shown for ops, shown in self.ops.items() if shown or self.tries.get(ops, 1) >= tries}


def _locked(file: int) -> bool:
    """Whether this process could have the file for itself. The children of one that was killed hold it for a moment
    longer, until they are gone as well."""
    until = time.monotonic() + _DYING
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)


class Journal:
    """Appends to the journal of a folder; raises UsageError where another process does. `terms` stand for what is
    reduced and by which measure: answers of a run on other terms are not known."""

    def __init__(self, path: Path, terms: str = "") -> None:
        self._terms = terms
        self._begun = path.with_name(BEGUN)
        self._ahead = _open(self._begun)
        if not _locked(self._ahead):
            os.close(self._ahead)
            raise UsageError(f"another minify is at work in {path.parent}: wait for it, or give another --out.")
        self.known = read_known(path, terms)
        self._file = _open(path)

    def begin(self, entries: Sequence[Entry]) -> None:
        """Writes that these are about to be tried; it is on the disk when this returns."""
        told = [_told(entry) for entry in dict.fromkeys(entries)]
        _write(self._ahead, {"boot": _boot(), "begun": told})
        os.fdatasync(self._ahead)

    def end(self, entry: Entry, verdict: Verdict, seconds: float, **more: Any) -> None:
        """Writes how one of them ended."""
        line = {"phase": entry.phase, "ops": entry.ops, "verdict": verdict.value, "seconds": round(seconds, 4)}
        key = {"key": entry.key} if entry.key else {}
        _write(self._file, {**line, **key, **more, "terms": self._terms})
        self.forget([entry])

    def forget(self, entries: Sequence[Entry]) -> None:
        """What was begun is not tried any longer, for a reason that is not its own."""
        for entry in entries:
            _write(self._ahead, {"ended": _told(entry)})

    def close(self, *, finished: bool) -> None:
        """Lets another process go on with it; where there is nothing left to go on with, what began is forgotten."""
        if finished:
            self._begun.unlink(missing_ok=True)
        os.close(self._ahead)
        os.close(self._file)


def _told(entry: Entry) -> list[str]:
    return [entry.phase, entry.ops, entry.key]


def _open(path: Path) -> int:
    """For appending; what a line that was cut short left is no part of the next one."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


def _write(file: int, line: dict[str, Any]) -> None:
    os.write(file, (json.dumps(line) + "\n").encode())


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a candidate."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _boot() -> str:
    """What tells this run of the machine from its last."""
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


def read_known(path: Path, terms: str = "") -> Known:
    """What a journal says of runs on these terms; lines that are damaged, as the last of a process that was killed may
    be, say nothing, nor do answers for which there was no time or memory."""
    known = Known(skipped=_lost(path.with_name(BEGUN)))
    for line in _lines(path):
        if line.get("terms") != terms:
            continue
        try:
            entry, verdict = Entry(line["phase"], line["ops"], line.get("key", "")), Verdict(line["verdict"])
        except (KeyError, ValueError):
            continue
        known.counts[verdict] += 1
        if verdict is not Verdict.UNRESOLVED:
            _note(known, entry, verdict is Verdict.SAME)
            known.tries[entry.ops] = line.get("tries", 1)
        if verdict is Verdict.PASS:
            known.passed.add(entry.key)
    for entry in known.skipped:
        _note(known, entry, False)
    return known


def _note(known: Known, entry: Entry, shown: bool) -> None:
    if entry.phase not in BESIDE_THE_SEARCH:
        known.ops[entry.ops] = shown
    elif entry.key:
        known.made[entry.key] = shown


def _lost(path: Path) -> tuple[Entry, ...]:
    """What began and did not end, and took the machine with it, or the process again and again."""
    begun: Counter[Entry] = Counter()
    boots: dict[Entry, str] = {}
    for line in _lines(path):
        try:
            if "ended" in line:
                begun.pop(Entry(*line["ended"]), None)
                continue
            for entry in (Entry(*each) for each in line["begun"]):
                begun[entry] += 1
                boots[entry] = line["boot"]
        except (KeyError, TypeError):
            continue
    return tuple(each for each, times in begun.items() if times >= _TRIES or boots[each] != _boot())


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line
