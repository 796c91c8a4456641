"""What a hunt writes down: a line for each program, a folder for each distinct failure."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from minifier.data.case.run_folder import RunFolder, ignore_results
from minifier.data.case.store import CASE, load, write_atomically
from minifier.data.failure import Failure, Kind, same
from minifier.flow.hunt.programs import Program, name_of
from minifier.flow.hunt.trial import Answer

LINES, FAILURES = "results.jsonl", "failures"


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a program: a line of results.jsonl.

    `group` is the number of the distinct failure that it shows, 0 for none.
    """

    subject: str
    variant: str
    number: int
    answer: Answer
    reason: str = ""
    group: int = 0

    @property
    def name(self) -> str:
        """The name of the program."""
        return name_of(self.subject, self.variant, self.number)


@dataclass(frozen=True, slots=True)
class Group:
    """A distinct failure: its number, its folder, its failure, and what the first program that showed it tries."""

    number: int
    folder: RunFolder
    subject: str
    failure: Failure

    def has(self, failure: Failure, subject: str) -> bool:
        """Whether a program's failure is this one, as far as can be told ahead of a reduction.

        Wrong results, deaths and hangs say too little of themselves: the subject has to be the same.
        """
        is_told = failure.fingerprint.kind is Kind.EXCEPTION
        return (is_told or subject == self.subject) and same(self.failure.fingerprint, failure.fingerprint)


class Records:
    """The folder of a hunt. A hunt that goes on reads what an earlier one has left there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tried = list(self._lines())
        subjects = {each.group: each.subject for each in reversed(self.tried)}
        self.groups = [
            Group(number, RunFolder(place), subjects.get(number, ""), load(place / "case").failure)
            for number, place in self._places()
        ]

    def _lines(self) -> Iterator[Tried]:
        path = self.folder / LINES
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a killed hunt has left a half
            write_atomically(path, whole)
        for line in whole.splitlines():
            fields = json.loads(line)
            yield Tried(**{**fields, "answer": Answer(fields["answer"])})

    def _places(self) -> list[tuple[int, Path]]:
        places = (self.folder / FAILURES).glob("*") if (self.folder / FAILURES).exists() else ()
        return sorted((int(each.name.partition("-")[0]), each) for each in places if (each / "case" / CASE).exists())

    def group_for(self, failure: Failure, subject: str) -> Group | None:
        """Return the group that a program's failure belongs to, or None."""
        return next((group for group in self.groups if group.has(failure, subject)), None)

    def add(self, program: Program, found: RunFolder, failure: Failure) -> Group:
        """Keep the Case of a failure that is in no group yet, as a new one."""
        number = 1 + max((group.number for group in self.groups), default=0)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", program.subject).strip("-")
        place = self.folder / FAILURES / f"{number}-{slug}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(found.path, place)
        self.groups.append(Group(number, RunFolder(place), program.subject, failure))
        return self.groups[-1]

    def note(self, tried: Tried) -> None:
        """Write a line, whole; make the folder for the first one."""
        self.tried.append(tried)
        ignore_results(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LINES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(tried)) + "\n")

    def cost(self, group: Group) -> int:
        """Return how many programs show the failure."""
        return sum(each.group == group.number for each in self.tried)
