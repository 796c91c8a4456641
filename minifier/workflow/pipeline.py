"""From a script, or a Case, to a verified repro: the stages in their order, each a function of the last."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import replace
from pathlib import Path

from minifier.capturing.capture import FailingGraph
from minifier.case import BackendReference, BackendSource, Case, Drawn, Graph, Node, Script, TensorInput
from minifier.case.store import ATEN, CASE, FORWARD, RESULT, load, save
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import Repro, difference, guard_gibibytes, write_repro
from minifier.errors import ExitCode, MinifyError, NoRepro, StoppedEarly
from minifier.failure import Kind
from minifier.passes.table import OF_VALUES
from minifier.process.memory import free_memory
from minifier.process.progress import Phase, Progress
from minifier.reduction.reduce_case import NEAREST
from minifier.reduction.summary import Summary
from minifier.report.environment import EnvironmentCollector
from minifier.report.finished import write_reports
from minifier.report.outcome import Outcome, Status
from minifier.report.privacy import PRIVATE
from minifier.settings import Settings
from minifier.slicing import with_definitions
from minifier.workflow.backward_module import is_lifting, keep_forward, limited
from minifier.workflow.control_backends import through_others
from minifier.workflow.reduction import Found, Surroundings, reduce_in_child, reduced
from minifier.workflow.repro_search import may_be_flaky, verified_repro


def _prove(found: Found, case: Case, out: Path, settings: Settings, around: Surroundings) -> None:
    """Looks for a repro; once more as one of a flaky failure where the script runs but shows nothing, and with a graph
    whose values are as in the script's where Dynamo makes something else of plainer ones."""
    timeout = max(60.0, 10 * case.script.seconds)
    _prove_any(found, out, timeout, settings, around)
    if found.repro is not None or is_lifting(out) or all(not settings.wants(name) for name in OF_VALUES):
        return
    assert found.summary is not None
    if found.summary.stopped_because:
        return
    around.say("no script shows it with all made plain: going on with sizes, dtypes and arguments as they were")
    place = out / "as-it-was"
    shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
    place.mkdir()
    shutil.copy(out / "journal.jsonl", place)  # what is known of the ops
    rest = replace(limited(settings, found.summary), skipped=(*settings.skipped, *OF_VALUES))
    try:
        again = reduce_in_child(out / "case", place, rest, around)
        if again.exit_code == ExitCode.STOPPED:
            raise KeyboardInterrupt
        if not again.error:
            _take(found, again, place, out, timeout, settings, around)
    except MinifyError as error:
        around.say(f"that came to nothing: {error}")
    finally:
        shutil.rmtree(place)


def _take(
    found: Found, summary: Summary, place: Path, out: Path, timeout: float, settings: Settings, around: Surroundings
) -> None:
    """Puts what another reduction came to in the place of what was found, if a repro shows it."""
    minimal = load(place / "minimal")
    other = Found(summary, minimal, (minimal,))
    _prove_any(other, out, timeout, settings, around)
    if other.repro is not None and other.minimal is not None:
        save(other.minimal, out / "minimal")
        found.summary, found.minimal, found.repro, found.check = summary, other.minimal, other.repro, other.check
        found.shown = other.shown
        found.reason = ""


def _prove_any(found: Found, out: Path, timeout: float, settings: Settings, around: Surroundings) -> None:
    reasons: list[str] = []
    for candidate in found.candidates:
        found.shown = candidate
        found.repro, found.check, reason = verified_repro(candidate, out, timeout, settings, around.display)
        if found.repro is None and found.check is not None and may_be_flaky(candidate, found.check):
            around.say("the repro does not show the failure each time: finding out how often it does")
            place = out / "flaky"
            shutil.rmtree(place, ignore_errors=True)
            save(candidate, place / "case")
            again = reduce_in_child(place / "case", place, settings, around, doubtful=True)
            flaky = candidate if again.error else load(place / "minimal")
            shutil.rmtree(place)
            if flaky.rate < 1.0:
                found.minimal = flaky
                save(flaky, out / "minimal")
                found.shown = flaky
                found.repro, found.check, reason = verified_repro(flaky, out, timeout, settings, around.display)
        if found.repro is not None:
            return
        reasons.append(reason)
    found.reason = "; ".join(reasons)


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
    if settings.memory is None and case.failure.fingerprint.kind is Kind.OUT_OF_MEMORY:
        # So that each probe fails soon and in the same way, with room beyond what the repro is given.
        settings = replace(settings, memory=min(free_memory(3 / 4) or 2**63, 2 * guard_gibibytes(case) * 2**30) or None)
    found = Found()
    (out / RESULT).unlink(missing_ok=True)  # of an earlier run in this folder: this one has not ended
    collector: EnvironmentCollector | None = None
    if case.backend.reach is BackendSource.NONE:
        found.reason = (
            f"the backend {case.backend.name} cannot be imported by a fresh interpreter: {case.backend.reason}. "
            "Hold it under a name of a module that can be imported, or register it in one."
        )
    else:
        found = reduced(case, out, settings, around)
        collector = EnvironmentCollector()
        if found.candidates:
            try:
                _prove(found, case, out, settings, around)
            except KeyboardInterrupt:
                collector.end()
                raise StoppedEarly(
                    f"interrupted while the repro was verified; the reduced Case is in {out / 'minimal'}, and "
                    f"`minify reduce {out}` goes on"
                ) from None
    _blame(found, settings, around)
    around.display.show(Progress(Phase.REPORTS))
    summary, repro = found.summary, found.repro
    status = Status.NO_REPRO
    if repro is not None and summary is not None:
        status = Status.STOPPED if summary.stopped_because else Status.REDUCED
    outcome = Outcome(
        status,
        case,
        found.minimal,
        summary,
        repro,
        found.check,
        found.reason,
        capture_seconds,
        time.monotonic() - started,
        others,
        match=settings.match,
        match_log=settings.match_log,
        nearest=_nearest(out, repro, settings.memory),
        environment=collector.text(around.display.tick) if collector is not None else "",
    )
    bundle = write_reports(out, outcome)
    if _may_go_along(outcome, out, settings, around):
        bundle = write_reports(out, outcome, include_data=True)
    for name, size in bundle.left_out:
        around.say(f"{name} ({size / 2**20:.0f} MiB) is not in {bundle.path.name}: trackers take no more than 25 MB")
    return outcome


def _blame(found: Found, settings: Settings, around: Surroundings) -> None:
    """Adds how the repro fares with other backends, unless the user does not wait for that."""
    if found.repro is None or found.shown is None or found.summary is None:
        return
    with contextlib.suppress(KeyboardInterrupt):
        backends = through_others(found.shown, found.repro, settings, around.display)
        found.summary = replace(found.summary, backends=backends)


def _may_go_along(outcome: Outcome, out: Path, settings: Settings, around: Surroundings) -> bool:
    """Whether the values that the repro reads from a file may be in the bundle: what the user has said, or says now."""
    if outcome.repro is None or outcome.repro.tensors is None or outcome.minimal is None:
        return False
    values = [
        f"{item.name} ({item.meta.dtype}, {' x '.join(map(str, item.meta.shape)) or 'one value'})"
        for item in outcome.minimal.inputs
        if isinstance(item, TensorInput) and not isinstance(item.source, Drawn)
    ]
    size = outcome.repro.tensors.stat().st_size / 2**20
    around.say(f"the repro reads real values of {', '.join(values) or 'the graph'} from {TENSOR_FILE} ({size:.1f} MiB)")
    if settings.include_data is not None:
        return settings.include_data
    if around.ask(f"Put {TENSOR_FILE} into bundle.zip, for those who get that?"):
        return True
    around.say(f"they are not in bundle.zip: `minify report {out} --include-data` puts them in")
    return False


def _nearest(out: Path, repro: Repro | None, memory: int | None) -> str:
    """What the repro would have to say otherwise for the failure to go, as a diff; nothing where that is not known."""
    folder = out / NEAREST
    if repro is None or repro.template is None or is_lifting(out) or not (folder / CASE).exists():
        return ""
    try:
        other = write_repro(load(folder), repro.template, repro.variant, memory)
    except NoRepro:
        return ""
    return difference(repro.text, other.text)


def give_up(
    failing: FailingGraph, out: Path, script: str, started: float, capture_seconds: float, others: tuple[str, ...]
) -> Outcome:
    """Reports a failure whose graph could not be written down."""
    failure, backend = failing.failure, failing.reference or BackendReference(failing.backend, BackendSource.NONE)
    assert failure is not None
    case = Case(Graph((Node("output", "output", "output", ((),)),)), (), backend, failure, script=Script(script))
    reason = f"its graph cannot be written down: {failing.unsaved}"
    seconds = time.monotonic() - started
    outcome = Outcome(
        Status.NO_REPRO, case, None, None, None, None, reason, capture_seconds, seconds, others, failing.ops
    )
    out.mkdir(parents=True, exist_ok=True)
    write_reports(out, outcome)
    return outcome


def adopt(captured: Path, out: Path, forward: int | None = None, source: str = "") -> Case:
    """Copies a captured Case, with those that are kept beside it, into the output folder as case/; with it, of a
    backward graph, that of the graph of Dynamo's with this number. `source` is the script's, from which definitions are
    taken that no import reaches."""
    case = with_definitions(load(captured), source)
    save(case, out / "case")
    if (captured / PRIVATE).exists():
        shutil.copyfile(captured / PRIVATE, out / "case" / PRIVATE)
    if forward is not None:
        keep_forward(captured.with_name(str(forward)), case, out / "case")
    for beside in (FORWARD, ATEN):
        if (captured / beside / CASE).exists():
            save(load(captured / beside), out / "case" / beside)
        if (out / "case" / beside / CASE).exists():
            save(with_definitions(load(out / "case" / beside), source), out / "case" / beside)
    return load(out / "case")
