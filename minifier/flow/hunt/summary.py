"""What a hunt found, summed up: the distinct failures, and what came of each subject in each variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minifier.data.failure import Kind
from minifier.flow.hunt.databases import OPERATORS, models_of_operators
from minifier.flow.hunt.records import Group, ProgramResult, Records
from minifier.flow.hunt.trial import Answer
from minifier.process.progress import counted

_MOST_SUBJECTS = 5  # that are named


@dataclass(frozen=True, slots=True)
class DistinctFailure:
    """A distinct failure: groups whose reduced Cases have one key, the first of which stands for all.

    `numbers` are those of the groups. So many `programs` show it, which are samples of these `subjects`; of so many it
    is `confirmed` that they show no other one: with its ops in eager mode they are right. So many `models`,
    architectures of transformers, call the operator that it is about, or that of its operators which most of them call.
    """

    group: Group
    result: dict[str, Any]
    numbers: frozenset[int]
    programs: int
    confirmed: int
    subjects: tuple[str, ...]
    models: int

    @property
    def status(self) -> str:
        """How far it came: the status of its run, or `not reduced`."""
        return str(self.result.get("status", "not reduced"))

    @property
    def cost(self) -> str:
        """What it costs, in words."""
        confirmed = f", {self.confirmed} confirmed" if self.confirmed else ""
        called = f"; an operator of {counted(self.models, 'model')}" if self.models else ""
        shown = ", ".join(self.subjects[:_MOST_SUBJECTS]) + (" ..." if len(self.subjects) > _MOST_SUBJECTS else "")
        return f"{counted(self.programs, 'program')} of {shown}{confirmed}{called}"

    @property
    def weight(self) -> int:
        """How much it costs: programs and models."""
        return self.programs + self.models

    @property
    def key(self) -> str:
        """The key of the failure; "" if it is not reduced."""
        return str(self.result.get("failure", {}).get("key", ""))

    @property
    def is_silent(self) -> bool:
        """Whether nothing is raised, and no process ends."""
        return self.group.failure.fingerprint.kind in (Kind.WRONG_RESULT, Kind.NON_FINITE, Kind.SILENT_FALLBACK)

    @property
    def what(self) -> str:
        """The ops of its repro, or what the first program tried."""
        ops = [origin["op"] for origin in self.result.get("origins", ())]
        return ", ".join(dict.fromkeys(ops)) or self.group.kin


def distinct(records: Records) -> list[DistinctFailure]:
    """Return the distinct failures: first the silent ones, and of each kind those of the most models and programs."""
    by_key: dict[str, list[tuple[Group, dict[str, Any]]]] = {}
    for group in records.groups:
        result = group.result
        key = result.get("failure", {}).get("key") or f"group {group.number}"
        by_key.setdefault(key, []).append((group, result))
    failures = []
    for groups in by_key.values():
        numbers = frozenset(group.number for group, _ in groups)
        programs = records.programs_of(numbers)
        right = (each for name, each in records.behind.items() if name in programs and each.is_right)
        confirmed = sum(numbers.issuperset(each.shows) for each in right)
        if programs:  # else all of them have turned out to show another failure
            subjects = tuple(dict.fromkeys(each.subject for each in programs.values()))
            operators = (each.subject for each in programs.values() if each.source == OPERATORS)
            models = max((models_of_operators().get(each, 0) for each in operators), default=0)
            failures.append(DistinctFailure(*groups[0], numbers, len(programs), confirmed, subjects, models))
    return sorted(failures, key=lambda each: (not each.is_silent, -each.weight, each.group.number))


_WORST_FIRST = (
    Answer.FAILS, Answer.UNSUPPORTED, Answer.FALLBACK, Answer.WORKS, Answer.NO_GRAPH, Answer.LEFT_OUT, Answer.ABSENT
)  # fmt: skip


def cells(records: Records) -> dict[tuple[str, str], ProgramResult]:
    """Return what came of each subject in each variant, that of its worst program, in the order of the trials."""
    found: dict[tuple[str, str], ProgramResult] = {}
    for each in records.tried:
        if each.answer is not Answer.ABSENT:
            known = found.setdefault((each.subject, each.variant), each)
            if _WORST_FIRST.index(each.answer) < _WORST_FIRST.index(known.answer):
                found[each.subject, each.variant] = each
    return found
