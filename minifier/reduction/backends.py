"""The reduced graph through torch's own backends that compile nothing: which of them fail tells whose fault it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minifier.case import BackendReference, Case, Level, Reach
from minifier.failure import Kind, Stage
from minifier.probe.evaluate import evaluate
from minifier.reduction.lab import Lab

OTHERS = ("eager", "aot_eager")
_PASSES = "passes"


def through_others(lab: Lab, case: Case) -> tuple[tuple[str, str], ...]:
    """(backend, how the graph fares with it) for each; nothing where the graph is one that AOTAutograd made, or the
    failure no more than a line that is logged."""
    if case.level is not Level.DYNAMO or case.failure.fingerprint.kind is Kind.SILENT_FALLBACK:
        return ()
    sought = case.failure.fingerprint.stage
    until = Stage.RUN if sought.compiles else sought

    def fare(name: str) -> dict[str, Any]:
        other = replace(case, backend=BackendReference(name, Reach.REGISTERED, repr(name)))
        return {"answer": evaluate(replace(lab.bench, case=other, _backend=None), other, until)}

    known = len(lab.faults)
    answers = lab.run([lambda name=name: fare(name) for name in OTHERS])  # type: ignore[misc]
    del lab.faults[known:]  # which would be told as those of probes
    told = ((name, _told(answer)) for name, answer in zip(OTHERS, answers, strict=True))
    return tuple((name, how) for name, how in told if how)


def _told(answer: dict[str, Any] | None) -> str:
    """How it fared; empty where it could not be tried."""
    if answer is None:
        return "the process died"
    if answer["answer"]["status"] == "invalid":
        return ""
    if answer["answer"]["status"] == "pass":
        return _PASSES
    if answer["answer"].get("differences"):
        return "differs from eager"
    links = answer["answer"].get("links") or []
    return f"raises {links[0]['type'].rpartition('.')[2]}" if links else "fails"
