"""What a hunt writes down: what is hunted, a line for each program, a folder for each failure."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minifier.data.case.run_folder import RunFolder, ignore_results
from minifier.data.case.store import CASE, load, write_atomically
from minifier.data.failure import Failure, Kind, same
from minifier.errors import UsageError
from minifier.flow.hunt.programs import name_of
from minifier.flow.hunt.trial import Answer

HUNT, LINES, FAILURES, PROGRAM = "hunt.json", "results.jsonl", "failures", "program.json"
_MAX_SLUG = 60  # characters of a folder's name


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What came of a program: a line of results.jsonl. `group` is the number of its group of failures, 0 for none."""

    source: str
    subject: str
    variant: str
    number: int
    answer: Answer
    reason: str = ""
    group: int = 0

    @property
    def name(self) -> str:
        """The name of the program."""
        return name_of(self.source, self.subject, self.variant, self.number)

    @property
    def told(self) -> str:
        """The answer, and its reason if it has one."""
        return f"{self.answer.value}: {self.reason}" if self.reason else self.answer.value

    @property
    def is_without_graph(self) -> bool:
        """Whether the program fails, and no graph of it does that could be saved."""
        return self.answer is Answer.FAILS and not self.group


@dataclass(frozen=True, slots=True)
class Group:
    """Programs with one failure, as far as can be told ahead of a reduction: their number, folder and failure.

    Reducing it may show that it is that of another group. `kin` and `program` are those of the first of them.
    """

    number: int
    folder: RunFolder
    kin: str
    program: str
    failure: Failure

    def has(self, failure: Failure, kin: str) -> bool:
        """Whether a program's failure is this one.

        Wrong results, deaths and hangs say too little of themselves: what is tried has to be the same.
        """
        names_itself = failure.fingerprint.kind is Kind.EXCEPTION and bool(failure.fingerprint.message)
        return (names_itself or kin == self.kin) and same(self.failure.fingerprint, failure.fingerprint)


class Records:
    """The folder of a hunt. A hunt that goes on reads what an earlier one has left there.

    Raises UsageError if a line or a Case is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tried = list(self._lines())
        self.groups = list(self._groups())

    def _lines(self) -> Iterator[ProgramResult]:
        path = self.folder / LINES
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a killed hunt has left a half
            write_atomically(path, whole)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                fields = json.loads(line)
                yield ProgramResult(**{**fields, "answer": Answer(fields["answer"])})
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{path}, line {number} is damaged ({error}): remove it, to try that again.") from None

    def _groups(self) -> Iterator[Group]:
        known = (self.folder / FAILURES).glob("[0-9]*-*")
        places = [each for each in known if (each / PROGRAM).exists() and (each / "case" / CASE).exists()]
        for place in sorted(places, key=lambda each: int(each.name.partition("-")[0])):
            first = json.loads((place / PROGRAM).read_text(encoding="utf-8"))
            failure = load(place / "case").failure
            yield Group(int(place.name.partition("-")[0]), RunFolder(place), first["kin"], first["name"], failure)

    def begin(self, hunted: Mapping[str, Any]) -> None:
        """Make the folder, and write what is hunted there. Raises UsageError if something else was hunted there."""
        ignore_results(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        path, text = self.folder / HUNT, json.dumps(hunted, indent=1, default=list) + "\n"
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(f"{self.folder} has a hunt with other options, which {HUNT} names: take another --out.")
        write_atomically(path, text)

    def group_for(self, failure: Failure, kin: str) -> Group | None:
        """Return the group that a program's failure belongs to, or None."""
        return next((group for group in self.groups if group.has(failure, kin)), None)

    def add(self, program: str, kin: str, found: Path, failure: Failure) -> Group:
        """Keep the Case of a failure that is in no group yet, as a new one; a kill leaves it whole, or not there.

        `program` and `kin` are the name and the kin of the program that shows it; its folder is copied.
        """
        number = 1 + max((group.number for group in self.groups), default=0)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", kin).strip("-")[:_MAX_SLUG]
        place = self.folder / FAILURES / f"{number}-{slug}"
        new = place.with_name(f".{place.name}")
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(found, new)
        write_atomically(new / PROGRAM, json.dumps({"name": program, "kin": kin}, indent=1) + "\n")
        new.rename(place)
        self.groups.append(Group(number, RunFolder(place), kin, program, failure))
        return self.groups[-1]

    def note(self, tried: ProgramResult) -> None:
        """Write a line, whole."""
        self.tried.append(tried)
        with (self.folder / LINES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(tried)) + "\n")

    def cost(self, group: Group) -> int:
        """Return how many programs show the failure."""
        return sum(each.group == group.number for each in self.tried)

    @property
    def fails(self) -> bool:
        """Whether a program fails."""
        return any(each.answer is Answer.FAILS for each in self.tried)
