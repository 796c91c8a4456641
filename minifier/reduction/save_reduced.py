"""Write the reduced Case, as its failure was last seen, and the Cases of other failures into the output folder."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.case import Case, Stored, TensorInput
from minifier.case.run_folder import RunFolder
from minifier.case.store import save
from minifier.case.stored import TENSORS
from minifier.errors import CannotSave
from minifier.failure import Kind
from minifier.failure.likeness import raised_alike
from minifier.probe.evaluate import store_inputs
from minifier.reduction.other_failures import Other
from minifier.reduction.probe_runner import ProbeRunner


def with_forms(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case with all forms of its failure that are known by now."""
    fingerprint = replace(case.failure.fingerprint, forms=runner.sought.forms)
    return replace(case, failure=replace(case.failure, fingerprint=fingerprint))


def as_sighted(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case with the message and traceback of its last sighting.

    The fingerprint stays, with the forms that were found meanwhile, and with the aspects that this Case shows.
    """
    case = with_forms(runner, case)
    seen = runner.sighted.get(runner.key_of(case))
    if seen is None or runner.sought.kind is Kind.TIMEOUT:  # the message is only the length of the timeout
        return case
    if case.failure.differences and not seen.differences:  # the death of a process where eager raises
        seen = replace(seen, message=case.failure.message, differences=case.failure.differences)
    failure = replace(
        case.failure,
        fingerprint=replace(case.failure.fingerprint, aspects=seen.fingerprint.aspects),
        type=seen.type,
        message=seen.message,
        traceback=seen.traceback,
        written=seen.written,
        differences=seen.differences,
    )
    return replace(case, failure=failure)


def save_reduced(runner: ProbeRunner, case: Case, folder: Path) -> Case:
    """Write the Case, with all its tensors in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TENSORS
    (result,) = runner.run([lambda: store_inputs(runner.prepared, case.inputs, case.graph, path)])
    if result is None:
        raise CannotSave("the inputs of the reduced graph could not be written: " + (runner.faults or ["it died"])[-1])
    stored: dict[str, Any] = result["stored"]
    inputs = tuple(
        replace(i, source=Stored(*stored[i.name])) if isinstance(i, TensorInput) and i.name in stored else i
        for i in case.inputs
    )
    case = replace(case, inputs=inputs, tensors=path if path.exists() else None)
    save(case, folder)
    return case


def save_others(runner: ProbeRunner, folder: RunFolder, ops: int) -> list[dict[str, Any]]:
    """Write the smallest Case of each other failure; return their descriptions for the summary.

    Failures with fewer than `ops` ops that were raised in the same functions as the sought failure come first: the
    cause may be the same. The smallest is the first.
    """
    descriptions = []

    def is_near(other: Other) -> bool:
        return len(other.case.graph.ops) < ops and raised_alike(runner.sought, other.failure.fingerprint)

    def size_if_near(other: Other) -> float:
        return len(other.case.graph.ops) if is_near(other) else math.inf

    for number, other in enumerate(sorted(runner.others, key=size_if_near), 1):
        place = folder.others / str(number)
        save_reduced(runner, other.case, place)
        where = str(place.relative_to(folder.path))
        descriptions.append({**other.described(), "case": where, "near": is_near(other)})
    return descriptions
