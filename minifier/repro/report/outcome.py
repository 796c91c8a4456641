"""A finished run as an object and as result.json, with the key by which its like are found."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from minifier.capturing.script import find_module
from minifier.data.case import BackendReference, BackendSource, Case, Level
from minifier.data.case.files import MARK
from minifier.data.case.graph import Node
from minifier.data.case.inputs import source_names
from minifier.data.case.literals import modules_imported
from minifier.data.case.serial import pack
from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.data.failure.normalise import normalise
from minifier.errors import said_of_trace
from minifier.process.distributions import names_by_package
from minifier.process.progress import counted
from minifier.reduction.summary import Summary
from minifier.repro.emit.footer import with_variables
from minifier.repro.emit.repro import Repro
from minifier.repro.verify import Verification

VERSION = 1
_OF_ALL_CHECKS = {"compile", "manual_seed", "Module"}  # functions of torch that tell no check from another
ORIGINS, PLACE = "origins", "place"  # fields of result.json


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
    repro after which the failure vanishes. `environment` is the text of torch's collector about the machine.
    `unsupported` has a sentence for each interface that this torch lacks. `backend_fallbacks` has lines about graphs
    that the backend left to others. `phases` has the seconds of each phase, which add up to the total. `mark` is the
    repro's mark, "" if the user has no key. `is_own` is False for a record that this user's minify did not write here.
    `secrets` are values of variables that earlier reports took out. `errors` are tracebacks of this tool's own errors
    in steps that it went on without.
    """

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
    backend_fallbacks: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    phases: dict[str, float] = field(default_factory=dict)
    folder: Path = Path()
    mark: str = ""
    is_own: bool = True
    secrets: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """How the run ended."""
        if self.repro is None:
            return Status.NO_REPRO
        is_stopped = self.summary is not None and self.summary.stopped_because
        return Status.STOPPED if is_stopped else Status.REDUCED

    @property
    def unit(self) -> str:
        """Return the word for a removed item."""
        return "statement" if self.case.level is Level.SOURCE else "op"

    @property
    def size_before(self) -> int:
        """Return the ops of the captured graph; of a reduced script, its statements."""
        if self.case.level is Level.SOURCE and self.summary is not None:
            return self.summary.ops_before
        return len(self.case.graph.ops) or self.ops_before or 0

    @property
    def change(self) -> str:
        """Return how the size changed: `from 160 ops to 1`, `1 op, as captured`; "" if nothing was reduced.

        A script of as many statements as before may have other statements.
        """
        if self.summary is None:
            return ""
        before, after = self.size_before, self.summary.ops_after
        if before != after:
            return f"from {counted(before, self.unit)} to {after}"
        same = "as many as before" if self.case.level is Level.SOURCE else "as captured"
        return f"{counted(before, self.unit)}, {same}"

    @property
    def reduced(self) -> str:
        """Return how the size changed, how far that is proved to be minimal, and in how many probes, in words."""
        if self.summary is None:
            return "not reduced"
        return f"{self.change}, {self.proved}; {counted(self.summary.probes['total'], 'probe')}"

    @property
    def proved(self) -> str:
        """Return how far the result is proved to be minimal, in words; `minimal` only if every pass ended by itself."""
        summary = self.summary
        if summary is None:
            return "not reduced"
        if summary.stopped_because and not summary.one_minimal:
            return f"not proved minimal: {summary.stopped_because}"
        if summary.exceptions:
            return f"minimal but for this: {summary.exceptions}"
        if summary.unanswered:
            return f"minimal but for {counted(summary.unanswered, 'candidate')} that gave no answer"
        if not summary.unfinished:
            return "minimal"
        why = summary.stopped_because or "its default time limit was reached"
        return f"no {self.unit} can go; simplifying ended: {why}"

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
    def verdict(self) -> str:
        """Return how often the repro was verified, and how its control ended, in words."""
        runs, agreeing = self.verified
        if not runs:
            return "There is no repro" if self.repro is None else "The repro was not run"
        control = "without torch.compile" if self.case.is_of_torch else "with eager"
        end = {True: f"; {control} it passes", False: f"; {control} it fails too", None: ""}[self.passes_in_eager]
        return f"{agreeing} of {runs} fresh interpreters show the same failure{end}"

    @property
    def names(self) -> dict[str, str]:
        """Map nodes to variables of the repro, and inputs that it lacks to their names in the program."""
        of_script = source_names(self.case.graph)
        of_repro = dict(self.repro.names) if self.repro is not None else {}
        taken = set(of_repro.values())
        others = {node: f"{name} of the script" if name in taken else name for node, name in of_script.items()}
        return {**others, **of_repro}

    @property
    def failure(self) -> Failure:
        """The captured failure, with names that a reader of the repro knows."""
        return self.case.failure.named(self.names)

    @property
    def shown_failure(self) -> Failure:
        """The failure as the verified repro shows it, else that of the reduced Case, else the captured failure."""
        failure = (self.minimal or self.case).failure.named(self.names)
        check = self.verification
        seen = check.runs[0].failure if check is not None and check.agrees else None
        is_of_case = failure.fingerprint.stage is Stage.COMPARE or failure.fingerprint.kind is Kind.TIMEOUT
        return failure if seen is None or is_of_case else seen

    @property
    def backend_files(self) -> tuple[str, ...]:
        """Return the files and folders of the backend's modules, whose source lines a report may show."""
        return files_of_backend((self.minimal or self.case).backend)


_CONTROL = {True: "passed", False: "failed", None: None}


def result_data(outcome: Outcome) -> dict[str, Any]:
    """Return the content of result.json. docs/reference/result-json.md documents the fields."""
    case, summary = outcome.case, outcome.summary
    failure, backend = outcome.failure, (outcome.minimal or case).backend
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
            "key": duplicate_key(outcome),
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
        ORIGINS: [_origin(node) for node in outcome.minimal.graph.ops] if outcome.minimal is not None else [],
        "calls_ahead": len(outcome.minimal.others) if outcome.minimal is not None else 0,
        "backend_fallbacks": list(outcome.backend_fallbacks),
        "unsupported": list(outcome.unsupported),
        "errors": list(map(said_of_trace, outcome.errors)),
        "needs": [with_variables(need, outcome.names) for need in (outcome.minimal or case).needs],
        "nearest": outcome.nearest or None,
        "explained": _explained(summary) if summary is not None else None,
        "passes": dict(summary.passes) if summary is not None else {},
        "guilt": (summary.guilt if summary is not None else "") or None,
        "stopped_because": (summary.stopped_because if summary is not None else "") or outcome.reason or None,
        "repro": "repro.py" if outcome.repro is not None else None,
        "template": outcome.repro.template.value if outcome.repro is not None and outcome.repro.template else None,
        MARK: outcome.mark or None,
        "match": outcome.match,
        "match_log": outcome.match_log,
        "others": [
            *map(dataclasses.asdict, summary.others if summary is not None else ()),
            *({"graph": each} for each in outcome.others),
        ],
    }


def _origin(node: Node) -> dict[str, str]:
    """Return where an op comes from: file and line, the class around it and its path in the model."""
    name, path = node.module
    return {"op": node.target, PLACE: node.place, "class": name, "module": path}


def _explained(summary: Summary) -> dict[str, Any] | None:
    if not (summary.part or summary.explained or summary.workarounds):
        return None
    probes = [{"changed": change, "result": result} for change, result in summary.explained]
    return {
        "part": summary.part or None,
        "reason": summary.reason or None,
        "workarounds": list(summary.workarounds),
        "probes": probes,
        "artifacts": list(summary.artifacts),
    }


def files_of_backend(backend: BackendReference) -> tuple[str, ...]:
    """Return the files and folders of the modules that the backend is imported from, as they are installed here.

    A backend that the script defines has none: its imports are the script's own.
    """
    if backend.reach in (BackendSource.DEFINED, BackendSource.NONE):
        return ()
    modules = {module for line in backend.imports for module in modules_imported(line)}
    if backend.distribution is not None:
        modules |= {module for module, names in names_by_package().items() if backend.distribution in names}
    return tuple(dict.fromkeys(path for module in sorted(modules) for path in _files(module, backend.folders)))


def _files(module: str, folders: tuple[str, ...]) -> Iterator[str]:
    """Yield the folder of the module's package, or the module's file. Of a namespace package, go on to its parts."""
    names = module.split(".")
    spec = find_module(names[0], folders)
    for end in range(2, len(names) + 1):
        if spec is None or spec.has_location or spec.submodule_search_locations is None:
            break
        spec = PathFinder.find_spec(".".join(names[:end]), list(spec.submodule_search_locations))
    if spec is not None and spec.has_location:
        yield from spec.submodule_search_locations or [str(spec.origin)]


def duplicate_key(outcome: Outcome) -> str:
    """Return twelve hexadecimal digits, equal for equal failures of a backend.

    Equal are the backend's distribution, the stage and kind of the failure, the ops and the dtypes of what they read,
    the raising function, what native code wrote, and the normalised message. There a node may be called after its op.
    The message of a script's check says little: the names of torch in the repro have to be equal then.
    """
    case, text = outcome.minimal or outcome.case, outcome.repro.text if outcome.repro is not None else ""
    ops = op_names(case)
    fingerprint = case.failure.fingerprint
    raising = fingerprint.raising
    identity = [
        case.backend.distribution or case.backend.name,
        fingerprint.stage.value,
        fingerprint.kind.value,
        fingerprint.types,
        [raising.module, raising.function] if raising is not None else None,
        fingerprint.native,
        words_of(replace(fingerprint, names=(*fingerprint.names, *ops)), "<node>"),
        ops,
        sorted({given.meta.dtype for given in case.tensor_inputs}),
    ]
    if case.level is Level.SOURCE and "AssertionError" in fingerprint.types:
        identity.append(sorted({*re.findall(r"\b(?:torch|nn|F)\.(?:\w+\.)*(?!rand)(\w+)", text)} - _OF_ALL_CHECKS))
    return hashlib.blake2b(json.dumps(identity).encode(), digest_size=6).hexdigest()


def op_names(case: Case) -> list[str]:
    """Return the names of the graph's ops, each once."""
    return sorted({node.short_target for node in case.graph.ops})


def words_of(fingerprint: Fingerprint, node: str) -> str:
    """Return the normalised message with `node` in the place of node names, which a user chose."""
    text = normalise(fingerprint.message)
    for name in fingerprint.names:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", node, text)
    return " ".join(text.split())
