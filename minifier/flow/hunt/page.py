"""The pages of a hunt: what works, what does not, and the repro of each distinct failure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from minifier.data.case.store import RESULT, write_atomically
from minifier.flow.hunt.exploring import Hunted
from minifier.flow.hunt.records import Group, Records
from minifier.flow.hunt.trial import Answer
from minifier.process.progress import counted
from minifier.repro.report.markdown import fence, items, prose, table

_OTHER = (Answer.UNSUPPORTED, Answer.FALLBACK, Answer.NO_GRAPH, Answer.LEFT_OUT)
REPORT, SUMMARY = "report.md", "summary.json"
_ASKED = (
    Answer.WORKS,
    Answer.FALLBACK,
    Answer.UNSUPPORTED,
    Answer.FAILS,
)  # answers that say something about the backend


@dataclass(frozen=True, slots=True)
class Failure:
    """A distinct failure of the page: groups whose reduced Cases are equal. `programs` show it, of these `subjects`."""

    group: Group
    result: dict[str, Any]
    programs: int
    subjects: tuple[str, ...]

    @property
    def status(self) -> str:
        """How far it came: the status of its run, or `not reduced`."""
        return str(self.result.get("status", "not reduced"))

    @property
    def what(self) -> str:
        """The ops of its repro, or what the first program tried."""
        ops = [origin["op"] for origin in self.result.get("origins", ())]
        return ", ".join(dict.fromkeys(ops)) or self.group.subject


def distinct(records: Records) -> list[Failure]:
    """Return the distinct failures, those that cost the most programs first."""
    by_key: dict[str, list[tuple[Group, dict[str, Any]]]] = {}
    for group in records.groups:
        path = group.folder.path / RESULT
        result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        key = result.get("failure", {}).get("key") or f"group {group.number}"
        by_key.setdefault(key, []).append((group, result))
    failures = []
    for groups in by_key.values():
        numbers = {group.number for group, _ in groups}
        programs = [each for each in records.tried if each.group in numbers]
        subjects = tuple(dict.fromkeys(each.subject for each in programs))
        failures.append(Failure(*groups[0], len(programs), subjects))
    return sorted(failures, key=lambda each: (-each.programs, each.group.number))


def cells(records: Records) -> dict[tuple[str, str], Answer]:
    """Return what came of each subject in each variant: it works if all its programs do that said something."""
    found: dict[tuple[str, str], Answer] = {}
    order = [Answer.FAILS, Answer.UNSUPPORTED, Answer.FALLBACK, Answer.WORKS, Answer.NO_GRAPH, Answer.LEFT_OUT]
    for each in records.tried:
        if each.answer is not Answer.ABSENT:
            place = each.subject, each.variant
            found[place] = min(found.get(place, each.answer), each.answer, key=order.index)
    return found


def first_line(hunted: Hunted, records: Records) -> str:
    """Return the hunt in one sentence."""
    known, failures = cells(records), distinct(records)
    told = []
    for variant in dict.fromkeys(variant for _, variant in known):
        asked = [answer for (_, each), answer in known.items() if each == variant and answer in _ASKED]
        works = sum(answer is Answer.WORKS for answer in asked)
        told.append(f"{works} of {len(asked)}{f' in {variant}' if variant else ''}")
    sentence = f"{hunted.backend}: {', '.join(told) or 'nothing'} work"
    if not failures:
        return sentence
    worst = f"the worst costs {counted(failures[0].programs, 'program')}"
    return f"{sentence}; {counted(len(failures), 'distinct failure')}, {worst}"


def write_pages(hunted: Hunted, records: Records) -> None:
    """Write the pages anew."""
    failures, answers = distinct(records), Counter(each.answer for each in records.tried)
    summary = {
        "version": 1,
        "backend": hunted.backend,
        "sentence": first_line(hunted, records),
        "programs": {answer.value: answers[answer] for answer in Answer if answer is not Answer.SUSPECT},
        "failures": [
            {
                "folder": str(each.group.folder.path.relative_to(records.folder)),
                "what": each.what,
                "sentence": each.group.failure.sentence,
                "status": each.status,
                "key": each.result.get("failure", {}).get("key"),
                "programs": each.programs,
                "subjects": list(each.subjects),
            }
            for each in failures
        ],
    }
    write_atomically(records.folder / SUMMARY, json.dumps(summary, indent=1) + "\n")
    write_atomically(records.folder / REPORT, _report(hunted, records, failures))


def _report(hunted: Hunted, records: Records, failures: list[Failure]) -> str:
    rows = [
        (
            f"{each.what}: {each.group.failure.sentence}",
            f"{each.group.folder.path.relative_to(records.folder)}: {each.status}",
            str(each.programs),
            ", ".join(each.subjects[:5]) + (" ..." if len(each.subjects) > 5 else ""),
        )
        for each in failures
    ]
    blocks = [f"# {prose(first_line(hunted, records))}"]
    if rows:
        blocks.append(table(("failure", "repro", "programs", "of"), rows))
    for each in failures:
        repro = each.group.folder.repro
        if repro.exists():
            blocks += [f"## {prose(each.what)}", fence(repro.read_text(encoding="utf-8"), "python")]
    rest = Counter(
        f"{each.answer.value}: {each.reason}" if each.reason else each.answer.value
        for each in records.tried
        if each.answer in _OTHER
    )
    blocks += (
        ["## Neither works nor fails", items(f"{count}: {reason}" for reason, count in rest.most_common())]
        if rest
        else []
    )
    return "\n\n".join(blocks) + "\n"
