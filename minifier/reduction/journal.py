"""The journal of a reduction: a line ahead of each probe and one after it, so that whatever ends the process, or the
machine, what is known is known, and what ended it is too."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minifier.errors import UsageError
from minifier.failure import Verdict

JOURNAL = "journal.jsonl"
BESIDE_THE_SEARCH = ("check", "bodies", "parts", "simplify")  # phases whose answers are not about the graph's ops
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TRIES = 2  # of a candidate during which the process was killed, the machine going on


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
    candidates that are not to be tried again, as the machine went down while they were."""

    ops: dict[str, bool] = field(default_factory=dict)
    made: dict[str, bool] = field(default_factory=dict)
    skipped: tuple[Entry, ...] = ()


class Journal:
    """Appends to the journal of a folder; raises UsageError where another process does."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise UsageError(
                f"another minify is at work in {path.parent}: wait for it, or give another --out."
            ) from None
        self.known = read_known(path)
        if _ends_amid_a_line(self._file):
            os.write(self._file, b"\n")

    def begin(self, entries: Sequence[Entry]) -> None:
        """Writes that these are about to be tried; on the disk when this returns."""
        told = [[entry.phase, entry.ops, entry.key] for entry in entries]
        self._write({"boot": _boot(), "begun": told})
        os.fdatasync(self._file)

    def end(self, entry: Entry, verdict: Verdict, seconds: float, **more: Any) -> None:
        """Writes how one of them ended."""
        line = {"phase": entry.phase, "ops": entry.ops, "verdict": verdict.value, "seconds": round(seconds, 4)}
        self._write({**line, **({"key": entry.key} if entry.key else {}), **more})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        """Lets another process go on with it."""
        os.close(self._file)


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a candidate."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _boot() -> str:
    """What tells this run of the machine from its last."""
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


def _ends_amid_a_line(file: int) -> bool:
    size = os.fstat(file).st_size
    return bool(size) and os.pread(file, 1, size - 1) != b"\n"


def read_known(path: Path) -> Known:
    """What a journal says; lines that are damaged, as the last of a process that was killed may be, say nothing."""
    known = Known()
    open_: Counter[Entry] = Counter()
    boots: dict[Entry, str] = {}
    for line in _lines(path):
        try:
            if "begun" in line:
                for entry in (Entry(*each) for each in line["begun"]):
                    open_[entry] += 1
                    boots[entry] = line["boot"]
                continue
            entry = Entry(line["phase"], line["ops"], line.get("key", ""))
            shown = line["verdict"] == Verdict.SAME.value
        except (KeyError, TypeError, AttributeError):
            continue
        open_.pop(entry, None)
        if entry.phase not in BESIDE_THE_SEARCH:
            known.ops[entry.ops] = shown
        elif entry.key:
            known.made[entry.key] = shown
    lost = tuple(each for each, times in open_.items() if times >= _TRIES or boots[each] != _boot())
    for entry in lost:
        if entry.key:
            known.made[entry.key] = False
        elif entry.phase not in BESIDE_THE_SEARCH:
            known.ops[entry.ops] = False
    return Known(known.ops, known.made, lost)


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
