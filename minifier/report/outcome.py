"""A finished run as an object and as result.json."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from minifier.case import Case, Level
from minifier.case.encode import pack
from minifier.case.store import RESULT, write_atomically
from minifier.emit.repro import Repro
from minifier.process.progress import counted
from minifier.reduction.summary import Summary
from minifier.verify import Verification

VERSION = 1


class Status(str, Enum):
    """How the run ended. Each status has an exit code."""

    REDUCED = "reduced"
    STOPPED = "stopped"
    NO_REPRO = "no-repro"


@dataclass(frozen=True)
class Outcome:
    """All data for the report, result.json and the last lines on the terminal.

    `case` is the captured Case. `minimal` is the reduced Case, or None if the reduction made none. `others` are
    sentences about the script's other failing graphs. `ops_before` counts the ops of a graph that could not be
    serialised. `match` and `match_log` are the user's patterns. `nearest` is a diff: the smallest known change of the
    repro after which the failure vanishes. `environment` is the text of torch's collector about the machine. `phases`
    has the seconds of each phase, which add up to the total.
    """

    status: Status
    case: Case
    minimal: Case | None
    summary: Summary | None
    repro: Repro | None
    verification: Verification | None
    reason: str
    capture_seconds: float
    total_seconds: float
    others: tuple[str, ...] = ()
    ops_before: int | None = None
    match: str | None = None
    match_log: str | None = None
    nearest: str = ""
    environment: str = ""
    fallbacks: tuple[str, ...] = ()
    phases: dict[str, float] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def parts(self) -> str:
        """Return the word for the removed items."""
        return "statements" if self.case.level is Level.SOURCE else "ops"

    @property
    def size_before(self) -> int:
        """Return the ops of the captured graph; of a reduced script, its statements."""
        if self.case.level is Level.SOURCE and self.summary is not None:
            return self.summary.ops_before
        return len(self.case.graph.ops) or self.ops_before or 0

    @property
    def proved(self) -> str:
        """Return how far the result is proved to be minimal, in words; `minimal` only if every pass ended by itself."""
        summary = self.summary
        if summary is None:
            return "not reduced"
        if summary.stopped_because and not summary.one_minimal:
            return f"not proved minimal: {summary.stopped_because}"
        if summary.unanswered:
            return f"minimal but for {counted(summary.unanswered, 'candidate')} that gave no answer"
        if not summary.unfinished:
            return "minimal"
        return f"no {self.parts.removesuffix('s')} can go; simplifying was cut off"

    @property
    def verified(self) -> tuple[int, int]:
        """Return the number of runs and how many showed the failure."""
        check = self.verification
        return (len(check.runs), check.same) if check is not None else (0, 0)

    @property
    def passes_in_eager(self) -> bool | None:
        """Return whether the control of the repro passes; None if that was not tried."""
        return self.verification.passes_in_eager if self.verification is not None else None

    @property
    def is_of_torch(self) -> bool:
        """Whether torch.compile itself fails, so that the control runs uncompiled, not with the backend eager."""
        return self.case.while_tracing or self.case.level is Level.SOURCE


_CONTROL = {True: "passed", False: "failed", None: None}


def result_data(outcome: Outcome) -> dict[str, Any]:
    """Return the content of result.json. docs/reference/result-json.md documents the fields."""
    case, summary = outcome.case, outcome.summary
    failure, backend = case.failure, (outcome.minimal or case).backend
    runs, agreeing = outcome.verified
    graph, source = (None, summary) if case.level is Level.SOURCE else (summary, None)
    counts = summary.probes if summary is not None and summary.probes else {"total": 0}
    return {
        "version": VERSION,
        "status": outcome.status.value,
        "failure": {
            "stage": failure.fingerprint.stage.value,
            "kind": failure.fingerprint.kind.value,
            "type": failure.type,
            "message": failure.message,
            "fingerprint": pack(failure.fingerprint),
        },
        "backend": {
            "name": backend.name,
            "reference": backend.expression,
            "imports": [*backend.ahead, *backend.imports],
            "distribution": backend.distribution,
            "version": backend.version,
        },
        "level": (outcome.minimal or case).level.value,
        "ops_before": outcome.size_before if source is None else None,
        "ops_after": graph.ops_after if graph is not None else None,
        "inputs_after": graph.inputs_after if graph is not None else None,
        "elements_after": graph.elements_after if graph is not None else None,
        "statements_before": outcome.size_before if source is not None else None,
        "statements_after": source.ops_after if source is not None else None,
        "probes": counts,
        "seconds": {
            "script": round(case.script.seconds, 3),
            "capture": round(outcome.capture_seconds, 3),
            "reduce": round(summary.seconds, 3) if summary is not None else 0.0,
            "verify": round(outcome.verification.seconds, 3) if outcome.verification is not None else 0.0,
            "total": round(outcome.total_seconds, 3),
            "phases": {name: round(seconds, 3) for name, seconds in outcome.phases.items()},
        },
        "verified": {"runs": runs, "same": agreeing, "control": _CONTROL[outcome.passes_in_eager]},
        "one_minimal": bool(summary is not None and summary.one_minimal),
        "calls_ahead": len(outcome.minimal.ahead) if outcome.minimal is not None else 0,
        "needs": list(outcome.minimal.needs) if outcome.minimal is not None else [],
        "nearest": outcome.nearest or None,
        "passes": dict(summary.passes) if summary is not None else {},
        "stopped_because": (summary.stopped_because if summary is not None else "") or outcome.reason or None,
        "repro": "repro.py" if outcome.repro is not None else None,
        "template": outcome.repro.template.value if outcome.repro is not None and outcome.repro.template else None,
        "match": outcome.match,
        "match_log": outcome.match_log,
        "others": [*(summary.others if summary is not None else ()), *({"graph": o} for o in outcome.others)],
    }


def write_result(folder: Path, outcome: Outcome) -> None:
    """Write result.json into the output folder."""
    write_atomically(folder / RESULT, json.dumps(result_data(outcome), indent=1) + "\n")
