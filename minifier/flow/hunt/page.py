"""The pages of a hunt: report.md, index.html, and summary.json, results.csv and junit.xml for other programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import quoteattr

from minifier.data.case.store import write_atomically
from minifier.flow.hunt.exploring import HuntOptions
from minifier.flow.hunt.index import index
from minifier.flow.hunt.records import ProgramResult, Records
from minifier.flow.hunt.summary import DistinctFailure, cells, distinct
from minifier.flow.hunt.trial import Answer
from minifier.process.progress import counted
from minifier.repro.report.markdown import fence, items, prose, table
from minifier.repro.report.redact import Redactor

REPORT, INDEX, SUMMARY, TABLE, JUNIT = "report.md", "index.html", "summary.json", "results.csv", "junit.xml"
_ANSWERED = (Answer.WORKS, Answer.FALLBACK, Answer.UNSUPPORTED, Answer.FAILS)  # these say something about the backend


def first_line(hunted: HuntOptions, records: Records, failures: Sequence[DistinctFailure]) -> str:
    """Return the hunt in one sentence."""
    known, told = cells(records), []
    for variant in dict.fromkeys(variant for _, variant in known):
        asked = [cell for (_, each), cell in known.items() if each == variant and cell.answer in _ANSWERED]
        answers = Counter(cell.answer for cell in asked)
        fell_back = f" ({answers[Answer.FALLBACK]} by fallback)" if answers[Answer.FALLBACK] else ""
        told.append(f"{answers[Answer.WORKS]} of {len(asked)}{f' in {variant}' if variant else ''}{fell_back}")
    sentence = f"{hunted.backend}: {', '.join(told) or 'nothing'} work"
    if not failures:
        return sentence
    reduced = [each for each in failures if each.key]
    counts = [counted(len(reduced), "distinct failure")] if reduced else []
    if left := len(failures) - len(reduced):
        counts.append(f"{counted(left, 'failure')} without a repro")
    worst = max(failures, key=lambda each: each.weight)
    models = f" of an operator of {counted(worst.models, 'model')}" if worst.models else ""
    return f"{sentence}; {' and '.join(counts)}, the worst costs {counted(worst.programs, 'program')}{models}"


def write_pages(hunted: HuntOptions, records: Records) -> None:
    """Write the pages anew, without secrets: they are made to be passed on."""
    failures, redactor = distinct(records), Redactor()
    title = first_line(hunted, records, failures)
    pages = {
        SUMMARY: _summary(hunted, records, failures, title),
        TABLE: _csv(records),
        JUNIT: _junit(hunted, records),
        REPORT: _report(records, failures, title),
        INDEX: index(title, records, failures),
    }
    for name, text in pages.items():
        write_atomically(records.folder / name, redactor.clean(name, text))


def _summary(hunted: HuntOptions, records: Records, failures: list[DistinctFailure], title: str) -> str:
    answers = Counter(each.answer for each in records.tried)
    summary = {
        "version": 1,
        "backend": hunted.backend,
        "sentence": title,
        "programs": {answer.value: answers[answer] for answer in Answer if answer is not Answer.ABSENT},
        "failures": [
            {
                "folder": _place(records, each),
                "what": each.what,
                "sentence": each.group.failure.sentence,
                "status": each.status,
                "key": each.key or None,
                "programs": each.programs,
                "models": each.models,
                "confirmed": each.confirmed,
                "subjects": list(each.subjects),
            }
            for each in failures
        ],
    }
    return json.dumps(summary, indent=1) + "\n"


def _place(records: Records, failure: DistinctFailure) -> str:
    return str(failure.group.folder.path.relative_to(records.folder))


def _csv(records: Records) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("subject", "variant", "number", "answer", "failure", "reason"))
    for each in records.tried:
        if each.answer is not Answer.ABSENT:
            writer.writerow((each.subject, each.variant, each.number, each.answer.value, each.group or "", each.reason))
    return text.getvalue()


def _junit(hunted: HuntOptions, records: Records) -> str:
    """Return the programs as tests: the class is the subject; what says nothing of the backend is skipped."""
    lines = []
    for each in records.tried:
        if each.answer is Answer.ABSENT:
            continue
        name = f"{each.variant} {each.number}".strip()
        head = f"<testcase classname={quoteattr(each.subject)} name={quoteattr(name)}"
        told = quoteattr(re.sub("[\ufffe\uffff]", "", each.reason or each.answer.value))
        if each.answer is Answer.FAILS:
            lines.append(f"{head}><failure message={told}/></testcase>")
        elif each.answer is Answer.WORKS:
            lines.append(f"{head}/>")
        else:
            lines.append(f"{head}><skipped message={told}/></testcase>")
    suite = f'<testsuite name={quoteattr(f"minify hunt {hunted.backend}")} tests="{len(lines)}">'
    return "\n".join(('<?xml version="1.0" encoding="utf-8"?>', suite, *lines, "</testsuite>")) + "\n"


def _report(records: Records, failures: list[DistinctFailure], title: str) -> str:
    rows = [
        (f"{each.what}: {each.group.failure.sentence}", f"{_place(records, each)}: {each.status}", each.cost)
        for each in failures
    ]
    blocks = [f"# {prose(title)}"]
    if rows:
        blocks.append(table(("failure", "repro", "costs"), rows))
    for each in failures:
        repro = each.group.folder.repro
        if repro.exists():
            blocks += [f"## {prose(each.what)}", fence(repro.read_text(encoding="utf-8"), "python")]
    blocks += _counted("Failures without a graph", records.without_graph)
    rest = (each for each in records.tried if each.answer not in (Answer.WORKS, Answer.FAILS, Answer.ABSENT))
    blocks += _counted("Neither works nor fails", rest)
    return "\n\n".join(blocks) + "\n"


def _counted(title: str, tried: Iterable[ProgramResult]) -> list[str]:
    reasons = Counter(each.told for each in tried)
    return [f"## {title}", items(f"{count}: {reason}" for reason, count in reasons.most_common())] if reasons else []
