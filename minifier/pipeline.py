"""From a script, or a Case, to a verified repro: the stages in their order, each a function of the last."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capture.stage import FailingGraph
from minifier.case import BackendReference, Case, Graph, Node, Reach, Script
from minifier.case.store import load, save
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import Repro, forms_for, guard_seconds, is_worth_trying, write_repro
from minifier.errors import ExitCode, MinifyError, NoRepro, NothingToReduce, StoppedEarly
from minifier.failure import Failure, Stage
from minifier.probe.bench import StartsThreads
from minifier.processes import TOOL_FAILED, adopt_orphans, interrupt_once, kill_orphans, run_stage
from minifier.reduction.stage import OnProbe, Summary, reduce_case, write_summary
from minifier.report.bundle import write_bundle
from minifier.report.markdown import write_report
from minifier.report.outcome import Outcome, Status, write_result
from minifier.settings import Settings
from minifier.verify import RUNS, Verification, run_script, verify

Say = Callable[[str], None]

EAGER = BackendReference("eager", Reach.REGISTERED, '"eager"')


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the stages say and whom they tell: lines for the user, probes for the progress display."""

    say: Say
    on_probe: OnProbe | None = None


_STARTS_THREADS = 71  # the exit status of a reduction that has to be done with late imports


def reduce_in_child(
    source: Path, out: Path, settings: Settings, around: Surroundings, *, late: bool = False
) -> Summary:
    """The reduction in a forked child, where the user's modules are imported; errors come back as such.

    With `late` the child imports nothing of the user's, but each probe does.
    """

    def work() -> int:
        interrupt_once()
        adopt_orphans()
        # Standard output is the script's; what a backend prints when it is imported again is not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            summary = reduce_case(source, out, settings, around.on_probe, late=late)
        except StartsThreads:
            return _STARTS_THREADS
        except KeyboardInterrupt:
            summary = _failed(StoppedEarly("interrupted before the failure was seen again"))
        except MinifyError as error:
            summary = _failed(error)
        write_summary(out, summary)
        return 0

    crash, path = "", out / "crash.txt"
    end = run_stage(work, lambda text: _write(path, text))
    if path.exists():
        crash = path.read_text(encoding="utf-8")
        path.unlink()
    if end.status == TOOL_FAILED or crash:
        raise MinifyError(crash or "the reduction ended without a word")
    if end.status == _STARTS_THREADS:
        around.say("the backend starts threads when it is imported: each probe imports it for itself, which is slower")
        return reduce_in_child(source, out, settings, around, late=True)
    if end.status != 0:
        how = f"signal {end.signal}" if end.signal is not None else f"exit status {end.status}"
        raise NoRepro(f"importing the backend or what the graph calls ended the process ({how})")
    summary = Summary.read(out)
    (out / "summary.json").unlink()
    return summary


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _failed(error: MinifyError) -> Summary:
    return Summary(0, 0, 0, 0, {}, False, "", 0.0, error=str(error), exit_code=int(error.exit_code))


def verified_repro(
    case: Case, out: Path, *, timeout: float, match: str | None, match_log: str | None = None
) -> tuple[Repro | None, Verification | None, str]:
    """The first form of repro that shows the failure in every run; else the last tried, and why not.

    A script that compares with eager must also find no difference when its backend is torch's own `eager`.
    """
    adopt_orphans()
    compares = case.failure.fingerprint.stage is Stage.COMPARE
    reasons: dict[str, None] = {}
    last: tuple[Repro, Verification] | None = None
    tried: set[str] = set()
    shown: list[tuple[Repro, Failure | None, bool]] = []
    for template, variant in forms_for(case):
        before = [(r.variant, failure, blames) for r, failure, blames in shown if r.template is template]
        if compares and not all(is_worth_trying(variant, *earlier) for earlier in before):
            continue
        try:
            repro = write_repro(case, template, variant)
        except NoRepro as error:
            reasons[str(error)] = None
            continue
        if repro.text in tried:
            continue
        tried.add(repro.text)
        check = _verified(case, repro, timeout, match, match_log)
        seen = check.runs[-1].failure
        of_eager = _difference_of_eager(case, repro, timeout) if compares and check.holds else None
        if check.holds and of_eager is None:
            repro.write(out)
            return repro, check, ""
        shown.append((repro, of_eager or seen, of_eager is not None))
        what = seen.fingerprint.sentence() if seen is not None else "no failure"
        if of_eager is not None:
            what = f"the same with the backend eager: {of_eager.fingerprint.sentence()}"
        else:
            last = repro, check
        reasons[f"the script made from {template.value}.py showed {what}"] = None
    return None, last[1] if last is not None else None, "; ".join(reasons)


def _verified(case: Case, repro: Repro, timeout: float, match: str | None, match_log: str | None) -> Verification:
    with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
        check = verify(
            repro.write(Path(folder)),
            case.failure.fingerprint,
            timeout=max(timeout, guard_seconds(case) + 60.0),
            extra_path=case.folders,
            match=match,
            match_log=match_log,
            any_stage=repro.template.hides_stage,
            at_once=RUNS if (os.cpu_count() or 1) > 1 else 1,
        )
    kill_orphans()
    return check


def _difference_of_eager(case: Case, repro: Repro, timeout: float) -> Failure | None:
    """What a comparing script shows where nothing is compiled; then it shows nothing about the backend."""
    control = write_repro(replace(case, backend=EAGER), repro.template, repro.variant)
    with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
        run = run_script(control.write(Path(folder)), timeout, case.folders, case.failure.fingerprint)
    kill_orphans()
    return run.failure


def finish(
    case: Case,
    out: Path,
    settings: Settings,
    around: Surroundings,
    started: float,
    capture_seconds: float,
    others: tuple[str, ...] = (),
) -> Outcome:
    """Reduces the Case saved in out/case, writes the repro, verifies it, reports."""
    reachable = case.backend.reach is not Reach.NONE
    summary: Summary | None = None
    minimal: Case | None = None
    repro, check, reason = None, None, ""
    status = Status.NO_REPRO
    if not reachable:
        reason = (
            f"the backend {case.backend.name} cannot be imported by a fresh interpreter: {case.backend.reason}. "
            "Hold it under a name of a module that can be imported, or register it in one."
        )
    else:
        summary = reduce_in_child(out / "case", out, settings, around)
        if summary.error:
            if summary.exit_code in (ExitCode.NOTHING, ExitCode.STOPPED, ExitCode.INTERNAL):
                raise {1: NothingToReduce, 3: StoppedEarly, 5: MinifyError}[summary.exit_code](summary.error)
            reason = summary.error
        else:
            minimal = load(out / "minimal")
            around.say(f"reduced from {summary.ops_before} ops to {summary.ops_after}; verifying the repro")
            timeout = max(60.0, 10 * case.script.seconds)
            try:
                repro, check, reason = verified_repro(
                    minimal, out, timeout=timeout, match=settings.match, match_log=settings.match_log
                )
            except KeyboardInterrupt:
                raise StoppedEarly(
                    f"interrupted while the repro was verified; the reduced Case is in {out / 'minimal'}, and "
                    f"`minify reduce {out}` goes on"
                ) from None
            if repro is not None:
                status = Status.STOPPED if summary.stopped_because else Status.REDUCED
    outcome = Outcome(
        status,
        case,
        minimal,
        summary,
        repro,
        check,
        reason,
        capture_seconds,
        time.monotonic() - started,
        others,
        match=settings.match,
        match_log=settings.match_log,
    )
    _write_all(out, outcome, settings.include_data)
    if repro is not None and repro.tensors is not None and not settings.include_data:
        around.say(
            f"the repro reads real values from {TENSOR_FILE}; they are not in bundle.zip (--include-data puts them in)"
        )
    return outcome


def give_up(
    failing: FailingGraph, out: Path, script: str, started: float, capture_seconds: float, others: tuple[str, ...]
) -> Outcome:
    """Reports a failure whose graph could not be written down."""
    failure, backend = failing.failure, failing.reference or BackendReference(failing.backend, Reach.NONE)
    assert failure is not None
    case = Case(Graph((Node("output", "output", "output", ((),)),)), (), backend, failure, script=Script(script))
    reason = f"its graph cannot be written down: {failing.unsaved}"
    seconds = time.monotonic() - started
    outcome = Outcome(
        Status.NO_REPRO, case, None, None, None, None, reason, capture_seconds, seconds, others, failing.ops
    )
    out.mkdir(parents=True, exist_ok=True)
    _write_all(out, outcome)
    return outcome


def _write_all(out: Path, outcome: Outcome, include_data: bool = False) -> None:
    write_report(out, outcome)
    write_result(out, outcome)
    write_bundle(out, outcome, include_data)


def adopt(captured: Path, out: Path) -> Case:
    """Copies a captured Case into the output folder as case/."""
    save(load(captured), out / "case")
    return load(out / "case")
