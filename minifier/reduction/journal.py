"""The journal of a reduction: a line for each finished probe, and a second file for the probes that have begun.

An interrupted reduction resumes from the journal. Candidates that took down the process or the machine are known, too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minifier.data.case import Case
from minifier.data.case.files import checked_file, read_lines
from minifier.data.case.serial import pack, parsed, unpack
from minifier.data.failure import Verdict
from minifier.errors import UsageError
from minifier.process.temporary import lock_alone

BEGUN = "begun.jsonl"
_MAX_LOCK_SECONDS = 5.0  # children of a killed process hold the lock until they have ended
# Fields of a Case that all its candidates share.
_SAME = {"failure", "script", "tensors", "measure", "definitions"}
# Fields that are no part of a key: those, and what no probe depends on. Nodes and inputs have a text each.
_BESIDE = {"graph", "inputs", "rate", "patience", "needs", "any_graph", *_SAME}
_MAX_TEXTS = 20_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAX_DEATHS = 5  # of the process over one candidate; inside a container, a machine that went down looks like that


class Keys:
    """Makes the keys of candidates. They share most nodes and inputs, whose text is made once."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[object, str]] = {}

    def of(self, case: Case) -> str:
        """Return the candidate's key."""
        rest = {f.name: pack(getattr(case, f.name)) for f in dataclasses.fields(case) if f.name not in _BESIDE}
        held = [pack(case.graph.attributes), pack(case.graph.modules), rest]
        texts = [self._text(item) for item in (*case.graph.nodes, *case.inputs)]
        return digest("\n".join([*texts, json.dumps(held)]))

    def _text(self, item: Any) -> str:
        known = self._texts.get(id(item))
        if known is not None and known[0] is item:
            return known[1]
        if len(self._texts) >= _MAX_TEXTS:
            self._texts.clear()
        text = json.dumps(pack(item))
        self._texts[id(item)] = (item, text)  # which keeps the id from being used again
        return text


class Entry(NamedTuple):
    """Identifies a probe: its phase, and a digest of the candidate."""

    phase: str
    key: str


@dataclass(frozen=True, slots=True)
class Known:
    """Answers of earlier runs on the same Case, by the candidate's digest.

    `skipped` has candidates that must not be tried again, because the machine went down during their probe: in
    `verdicts` they show another failure. `tries` counts the repetitions of a probe: a flaky failure may need more.
    """

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    skipped: tuple[Entry, ...] = ()
    tries: dict[str, int] = field(default_factory=dict)
    counts: Counter[Verdict] = field(default_factory=Counter)
    failing_ops: set[int] = field(default_factory=set)  # how many ops the candidates have that show the failure

    def answer(self, key: str, tries: int) -> bool | None:
        """Return whether the failure showed; None if unknown. "No" counts only after so many tries."""
        verdict = self.verdicts.get(key)
        is_vague = verdict is None or (verdict is not Verdict.SAME and self.tries.get(key, tries) < tries)
        return None if is_vague else verdict is Verdict.SAME


class Journal:
    """Appends to the journal of a folder. `terms` is a digest of all that the answers depend on: the whole Case, the
    values of its tensors, the user's patterns, and whether each probe imports the backend. Answers on other terms are
    ignored. Raises UsageError if another process uses the journal."""

    def __init__(self, path: Path, terms: str = "") -> None:
        self._terms = terms
        self._begun_path = path.with_name(BEGUN)
        self._begun_file = _open(self._begun_path)
        if not lock_alone(self._begun_file, _MAX_LOCK_SECONDS):
            os.close(self._begun_file)
            raise UsageError(f"another minify is at work in {path.parent}: wait for it, or give another --out.")
        self.known = read_known(path, terms)
        self._file = _open(path)

    def begin(self, entries: Sequence[Entry]) -> None:
        """Record that these probes start; the record is on disk when this returns."""
        _write(self._begun_file, {"boot": _boot_id(), "begun": [*dict.fromkeys(entries)]})
        os.fdatasync(self._begun_file)

    def end(self, entry: Entry, verdict: Verdict, seconds: float, ops: int = 0, **more: Any) -> None:
        """Record the verdict of a probe of a candidate with so many ops."""
        line = {"phase": entry.phase, "key": entry.key, "verdict": verdict.value, "seconds": round(seconds, 4)}
        _write(self._file, {**line, "ops": ops, **more, "terms": self._terms})
        self.forget([entry])

    def forget(self, entries: Sequence[Entry]) -> None:
        """Record that these probes have ended, so that no death is blamed on them."""
        for entry in entries:
            _write(self._begun_file, {"ended": entry})

    def close(self, *, finished: bool) -> None:
        """Close the journal and release its lock; remove the list of begun probes if the reduction is finished."""
        if finished:
            self._begun_path.unlink(missing_ok=True)
        os.close(self._begun_file)
        os.close(self._file)


def _entry(fields: Any) -> Entry:
    """Return the entry that was written as a list. Raises ValueError."""
    return Entry(*unpack(tuple[str, str], fields))


def _open(path: Path) -> int:
    """Open for appending; end an incomplete last line, which would spoil the next line."""
    if path.exists() or path.is_symlink():
        try:
            checked_file(path)
        except OSError as error:
            raise UsageError(f"{path} cannot be gone on with: {error.strerror}. Remove it.") from None
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


def _write(file: int, line: dict[str, Any]) -> None:
    os.write(file, (json.dumps(line) + "\n").encode())


def digest(text: str) -> str:
    """Return sixteen hexadecimal digits that identify a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def digest_of_file(path: Path) -> str:
    """Return sixteen hexadecimal digits that identify the content of a file."""
    state = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            state.update(chunk)
    return state.hexdigest()


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


def read_known(path: Path, terms: str = "") -> Known:
    """Read the answers of runs on these terms.
    Damaged lines (a killed process may leave a partial line) are ignored. Probes that ran out of time or memory count
    as probes, but give no answer."""
    known = Known(skipped=_fatal_entries(path.with_name(BEGUN)))
    for line in _lines(path):
        if line.get("terms") != terms:
            continue
        try:
            key = unpack(str, line["key"])
            verdict, tries = Verdict(line["verdict"]), unpack(int, line.get("tries", 1))
            ops = unpack(int, line.get("ops", 0))
        except (KeyError, ValueError):
            continue
        known.counts[verdict] += 1
        if verdict is not Verdict.UNRESOLVED:
            known.verdicts[key], known.tries[key] = verdict, tries
        if verdict is Verdict.SAME and ops:
            known.failing_ops.add(ops)
    for entry in known.skipped:
        known.verdicts[entry.key] = Verdict.OTHER
        known.tries.pop(entry.key, None)
    return known


def _fatal_entries(path: Path) -> tuple[Entry, ...]:
    """Return the probes that never ended and took down the machine, or repeatedly the process."""
    begun: Counter[Entry] = Counter()
    boots: dict[Entry, str] = {}
    for line in _lines(path):
        try:
            if "ended" in line:
                begun.pop(_entry(line["ended"]), None)
                continue
            boot = unpack(str, line["boot"])
            for entry in map(_entry, unpack(tuple[Any, ...], line["begun"])):
                begun[entry] += 1
                boots[entry] = boot
        except (KeyError, ValueError):
            continue
    return tuple(e for e, deaths in begun.items() if deaths >= _MAX_DEATHS or boots[e] != _boot_id())


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    for text in read_lines(path):
        try:
            line = parsed(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line
