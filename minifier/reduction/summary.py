"""The summary of a reduction, and the reduced Cases that it leaves in the run folder."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.data.case import Case, Stored, TensorInput
from minifier.data.case.inputs import source_names
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import TENSORS, save
from minifier.data.failure import Aspect, Kind, Verdict
from minifier.data.failure.likeness import raised_alike
from minifier.errors import CannotSave
from minifier.process.progress import counted

if TYPE_CHECKING:  # importing it would import torch to show a finished run
    from minifier.reduction.probe_runner import Other, ProbeRunner

_VALUES = {Aspect.VALUES.value, Aspect.MUTATION.value}  # in which wrong values show: of results, of changed inputs
FAILS = "fails"  # the answer of a probe that shows the failure
ALIKE = "fails in the same way"  # of a control
KEPT = "left as it is, as the backend's own code: "  # begins a note that names functions


def by_verdict(counts: Counter[Verdict]) -> dict[str, int]:
    """Return the number of probes in all, and by verdict."""
    return {"total": counts.total(), **{verdict.value: counts[verdict] for verdict in Verdict}}


@dataclass(frozen=True, slots=True)
class OtherFailure:
    """Another failure that the search met: the function that raises it, and the folder of its smallest Case.

    near: it was raised in the same function as the sought failure, by fewer ops.
    """

    type: str
    message: str
    where: str
    stage: str
    kind: str
    sightings: int
    ops: int
    case: str
    near: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a reduction in numbers and sentences.

    `backends` are (name, how it ended) of the controls. `explained` are (change, result) of the probes that tell what
    is at fault; with the failing control as the backend, if there is one. `part` is a phrase for the part of the
    compiler at fault, `reason` a sentence with the probe that tells it, and `workarounds` are changes that avoid the
    failure, verified (`reduction/explain.py`).
    `artifacts` are the names of files with what the compiler made of the minimal Case.
    `unanswered` is the number of candidates that gave no answer, however often they were asked. Of the candidates that
    prove the ops, `unanswered_ops` gave no answer, and eager failed on `invalid_ops`.
    `unrecorded` is the number of the graph's values that were too large to keep: the ops that read them were not cut
    off from the ops that make them. `hidden` are passes whose candidates all showed another failure. `guilt` says of a
    wrong result whether the reduced ops make the whole graph's results wrong (`reduction/guilty_ops.py`). `cause`
    is a sentence about that. `errors` are tracebacks of this tool's own errors: of a step that was left out, or of the
    search, which then ended with the best so far.
    """

    ops_before: int
    ops_after: int
    inputs_after: int
    elements_after: int
    probes: dict[str, int]
    one_minimal: bool
    stopped_because: str
    seconds: float
    others: tuple[OtherFailure, ...] = ()
    notes: tuple[str, ...] = ()
    passes: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    backends: tuple[tuple[str, str], ...] = ()
    explained: tuple[tuple[str, str], ...] = ()
    part: str = ""
    reason: str = ""
    workarounds: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    unanswered: int = 0
    unanswered_ops: int = 0
    invalid_ops: int = 0
    unrecorded: int = 0
    hidden: tuple[str, ...] = ()
    guilt: str = ""
    cause: str = ""
    errors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "total" not in self.probes:
            raise ValueError("probes: 'total' is missing")

    @property
    def failing_control(self) -> str:
        """The first backend of torch, compiling nothing, with which the failure shows too; "" if there is none."""
        return next((name for name, how in self.backends if how == ALIKE), "")

    @property
    def exceptions(self) -> str:
        """Say where the failure was not seen to be gone without an op; "" if it was gone every time."""
        unanswered, invalid = (counted(number, "candidate") for number in (self.unanswered_ops, self.invalid_ops))
        sentences = (
            f"{unanswered} gave no answer, also when asked again" if self.unanswered_ops else "",
            f"{invalid} failed without the backend as well" if self.invalid_ops else "",
        )
        return "; ".join(filter(None, sentences))

    @property
    def too_large(self) -> str:
        """A sentence about the values that were too large to keep; "" if there are none."""
        if not self.unrecorded:
            return ""
        values = "value of the graph was" if self.unrecorded == 1 else "values of the graph were"
        return (
            f"{self.unrecorded} {values} not kept, as all together would take more than half of the free space for "
            "temporary files: what reads them was not tried without what makes them (TMPDIR may name another disk)"
        )

    @property
    def hiding(self) -> str:
        """A sentence about passes whose candidates all showed another failure; "" if there are none."""
        if not self.hidden:
            return ""
        return f"every candidate of {' and '.join(self.hidden)} showed another failure, which may hide this one"

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Return the passes that a budget or an interruption ended."""
        return tuple(name for name, end in self.passes.items() if end == "unfinished")


def with_forms(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case with all forms of its failure that are known by now."""
    fingerprint = replace(case.failure.fingerprint, forms=runner.sought.forms)
    return replace(case, failure=replace(case.failure, fingerprint=fingerprint))


def as_sighted(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case with the message and traceback that it showed last.

    Its fingerprint is the sought one, with the other forms of the failure that were found meanwhile. Of a wrong result,
    the aspects are those that this Case shows.
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
    from minifier.reduction.probe.evaluate import store_inputs

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


def save_others(runner: ProbeRunner, folder: RunFolder, reduced: Case) -> list[OtherFailure]:
    """Write the smallest Case of each other failure; return what the summary tells of them.

    Failures of fewer ops than the reduced Case that were raised in the same functions as the sought failure come first:
    the cause may be the same. The smallest is the first. What the ops of the reduced Case raise elsewhere in the graph,
    in the same functions, is no other failure, nor a wrong value that they leave in an input in place of a result.
    """
    saved = []
    targets = _targets(reduced)

    def is_another(other: Other[Case]) -> bool:
        seen, ops = other.failure.fingerprint, _targets(other.program)
        if raised_alike(runner.sought, seen):
            return ops != targets
        return not _VALUES.issuperset((runner.sought.message, seen.message)) or not targets <= ops

    def is_near(other: Other[Case]) -> bool:
        is_smaller = len(other.program.graph.ops) < len(reduced.graph.ops)
        return is_smaller and raised_alike(runner.sought, other.failure.fingerprint)

    others = filter(is_another, runner.others)
    near_first = sorted(others, key=lambda other: len(other.program.graph.ops) if is_near(other) else math.inf)
    for number, other in enumerate(near_first, 1):
        place = folder.others / str(number)
        save_reduced(runner, other.program, place)
        failure, fingerprint = other.failure, other.failure.fingerprint
        saved.append(
            OtherFailure(
                failure.type,
                failure.named(source_names(other.program.graph)).message,
                fingerprint.where,
                fingerprint.stage.value,
                fingerprint.kind.value,
                other.sightings,
                len(other.program.graph.ops),
                str(place.relative_to(folder.path)),
                is_near(other),
            )
        )
    return saved


def _targets(case: Case) -> Counter[str]:
    return Counter(node.target for node in case.graph.ops)
