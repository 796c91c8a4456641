"""What a hunt writes down: what is hunted, a line for each program, a folder for each failure."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from minifier.data.case.run_folder import RunFolder, ignore_results
from minifier.data.case.store import CASE, RESULT, load, write_atomically
from minifier.data.failure import Failure, Kind, same
from minifier.errors import UsageError
from minifier.flow.hunt.programs import Program, name_of
from minifier.flow.hunt.trial import Answer
from minifier.process.progress import counted
from minifier.repro.report.outcome import Status

HUNT, LINES, FAILURES, PROGRAM = "hunt.json", "results.jsonl", "failures", "program.json"
OF_SCRIPT = "failure"  # the folder of a Case without a graph, whose failure is that of a whole script
_MAX_SLUG = 60  # characters of a folder's name


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What came of a program: a line of results.jsonl. `group` is the number of its group of failures, 0 for none.

    `behind` are the numbers of known failures whose ops ran in eager mode, none for the program itself; `shows` are
    those whose ops the program has, and of a script its further failures.
    """

    source: str
    subject: str
    variant: str
    number: int
    answer: Answer
    reason: str = ""
    group: int = 0
    behind: tuple[int, ...] = ()
    shows: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the program."""
        return name_of(self.source, self.subject, self.variant, self.number)

    @property
    def is_right(self) -> bool:
        """Whether nothing of the program fails, or nothing of it is left."""
        return self.answer in (Answer.WORKS, Answer.FALLBACK, Answer.NO_GRAPH)

    @property
    def told(self) -> str:
        """The answer, and its reason if it has one."""
        return f"{self.answer.value}: {self.reason}" if self.reason else self.answer.value


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

    @property
    def result(self) -> dict[str, Any]:
        """What result.json of its run says; empty ahead of its end."""
        path = self.folder.path / RESULT
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    @property
    def is_reduced(self) -> bool:
        """Whether its run has come to an end of its own, not to that of its time."""
        return self.result.get("status") not in (None, Status.STOPPED.value)

    @property
    def is_deadly(self) -> bool:
        """Whether a process that shows it dies or hangs."""
        return self.failure.fingerprint.kind in (Kind.SIGNAL, Kind.EXIT, Kind.TIMEOUT, Kind.OUT_OF_MEMORY)

    def is_like(self, other: Group) -> bool:
        """Whether the failures look the same."""
        return same(self.failure.fingerprint, other.failure.fingerprint)

    def has(self, failure: Failure, kin: str) -> bool:
        """Whether a program's failure is this one.

        Wrong results, deaths and hangs say too little of themselves: what is tried has to be the same.
        """
        return (names_itself(failure) or kin == self.kin) and same(self.failure.fingerprint, failure.fingerprint)


def names_itself(failure: Failure) -> bool:
    """Whether it is an exception with a message."""
    return failure.fingerprint.kind is Kind.EXCEPTION and bool(failure.fingerprint.message)


def failure_in(folder: Path) -> Failure:
    """Return the failure of a run: of its captured Case, or of a script that has none."""
    case = RunFolder(folder).case
    return load(case if (case / CASE).exists() else folder / OF_SCRIPT).failure


class Records:
    """The folder of a hunt. A hunt that goes on reads what an earlier one has left there.

    Raises UsageError if a line or a Case is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tried: dict[str, ProgramResult] = {}
        self._behind: list[ProgramResult] = []
        for line in self._read():
            self._keep(line)
        self.groups = list(self._groups())

    @property
    def tried(self) -> list[ProgramResult]:
        """What came of the programs themselves."""
        return list(self._tried.values())

    @property
    def without_graph(self) -> list[ProgramResult]:
        """What fails without a graph that does, among the programs themselves and behind known failures."""
        lines = (*self._tried.values(), *self.behind.values())
        return [each for each in lines if each.answer is Answer.FAILS and not each.group]

    @property
    def behind(self) -> dict[str, ProgramResult]:
        """What came last of the programs behind known failures, by the name of the program itself."""
        return {each.name: each for each in self._behind}

    @property
    def lines(self) -> tuple[ProgramResult, ...]:
        """All that is written and holds."""
        return (*self._tried.values(), *self._behind)

    def _keep(self, line: ProgramResult) -> None:
        """Take in a line.

        A program that is right behind known failures shows one of those, and no other one. One that fails there shows
        the failure that it has then, unless its own is known.
        """
        if not line.behind:
            self._tried[line.name] = line
            return
        self._behind.append(line)
        itself = self._tried.get(line.name)
        group = line.group or (line.is_right and next(iter(line.shows), 0))
        if itself is not None and group and itself.group not in line.behind:
            self._tried[line.name] = replace(itself, group=group)

    def _read(self) -> Iterator[ProgramResult]:
        path = self.folder / LINES
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a killed hunt has left a half
            write_atomically(path, whole)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                fields = json.loads(line)
                numbers = {name: tuple(fields[name]) for name in ("behind", "shows")}
                yield ProgramResult(**{**fields, **numbers, "answer": Answer(fields["answer"])})
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{path}, line {number} is damaged ({error}): remove it, to try that again.") from None

    def _groups(self) -> Iterator[Group]:
        known = (self.folder / FAILURES).glob("[0-9]*-*")
        places = [each for each in known if (each / PROGRAM).exists()]
        for place in sorted(places, key=lambda each: int(each.name.partition("-")[0])):
            first = json.loads((place / PROGRAM).read_text(encoding="utf-8"))
            failure = failure_in(place)
            yield Group(int(place.name.partition("-")[0]), RunFolder(place), first["kin"], first["name"], failure)

    def begin(self, hunted: Mapping[str, Any]) -> None:
        """Make the folder, and write what is hunted there. Raises UsageError if something else was hunted there."""
        ignore_results(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        path, text = self.folder / HUNT, json.dumps(hunted, indent=1, default=list) + "\n"
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(f"{self.folder} has a hunt with other options, which {HUNT} names: take another --out.")
        write_atomically(path, text)

    def group_for(self, failure: Failure, kin: str, shown_before: Collection[int] = ()) -> Group | None:
        """Return the group that a program's failure belongs to, or None.

        It is one of those that the program has shown before only if it says so itself.
        """
        groups = (each for each in self.groups if each.number not in shown_before or names_itself(failure))
        return next((each for each in groups if each.has(failure, kin)), None)

    def shown_before(self, tried: Program | ProgramResult) -> set[int]:
        """Return the numbers of the failures that a program behind known failures is known to have."""
        itself = self._tried.get(tried.name)
        return {*tried.behind, *([itself.group] if tried.behind and itself is not None else ())}

    def add(self, program: str, kin: str, found: Path, failure: Failure) -> Group:
        """Keep the Case of a failure that is in no group yet, as a new one; a kill leaves it whole, or not there.

        `program` and `kin` are the name and the kin of the program that shows it; its folder is copied.
        """
        taken = [group.number for group in self.groups] + [line.group for line in self.lines]  # of those gone, too
        number = 1 + max(taken, default=0)
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
        self._keep(tried)
        with (self.folder / LINES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(tried)) + "\n")

    @property
    def progress(self) -> str:
        """How much was tried and found, in words."""
        return f"{counted(len(self._tried), 'program')} tried, {counted(len(self.groups), 'failure')}"

    def programs_of(self, groups: Collection[int]) -> dict[str, ProgramResult]:
        """Return what shows the failures of these numbers, by the name of the program itself.

        Behind known failures it may have shown one that another one explains since: that counts if it was reduced.
        """
        reduced = {each.number for each in self.groups if each.number in groups and each.is_reduced}
        last = self.behind
        lines = (each for each in self._behind if each.group in reduced or last[each.name] is each)
        further = (each for each in self.tried if any(number in groups for number in each.shows))
        own = (each for each in (*self.tried, *lines) if each.group in groups)
        return {each.name: each for each in (*further, *own)}

    def cost(self, group: Group) -> int:
        """Return how many programs show the failure."""
        return len(self.programs_of([group.number]))
