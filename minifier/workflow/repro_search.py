"""Search for a form of repro that shows the failure in every fresh interpreter."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from minifier.case import EAGER, Case
from minifier.case.store import ATTEMPTS, load, save
from minifier.case.variables import may_be_written, others
from minifier.emit.repro import Repro, Template, forms_for, guard_gibibytes, guard_seconds, is_worth_trying, write_repro
from minifier.errors import MinifyError, NoRepro, StoppedEarly
from minifier.failure import Failure, Kind, Stage
from minifier.passes.table import OF_VALUES
from minifier.process.interpreters import Interpreters
from minifier.process.memory import cores
from minifier.process.orphans import adopt_orphans, kill_orphans
from minifier.process.progress import SILENT, Display
from minifier.settings import Settings
from minifier.source.probe import in_eager
from minifier.verify import RUNS, Conditions, Verification, verify
from minifier.workflow.attempt import Attempt, Reduced, ReproResult
from minifier.workflow.backward_module import limited
from minifier.workflow.reduction import run_reduction
from minifier.workflow.run_folder import next_place

_MAX_FORMS_WITH_VARIABLES = 4  # forms of repro that are tried with all environment variables
_MAX_VARIABLES = 4  # that a failure may depend on
# Stands for eager where a script calls the compiler of a backend: this backend's compilers return the graph.
EAGER_COMPILERS = replace(EAGER, name="aot_eager_default_partitioner", expression='"aot_eager_default_partitioner"')


@dataclass(frozen=True, slots=True)
class ReproSearch:
    """The search for a repro of a Case, in any form. `timeout` is in seconds, for each script."""

    case: Case
    out: Path
    timeout: float
    settings: Settings
    display: Display = SILENT
    interpreters: Interpreters = field(default_factory=Interpreters)

    def search(self, variables: tuple[str, ...] = ()) -> ReproResult:
        """Write the first form that shows the failure in every run to `out`. Without any, the result has the reasons.

        The scripts run with these environment variables and the ones of every shell.
        """
        adopt_orphans()
        case = self.case
        compares = case.failure.fingerprint.stage is Stage.COMPARE
        reasons: dict[str, None] = {}
        attempts: dict[str, list[str]] = {}
        last: Verification | None = None
        tried: set[str] = set()
        shown: list[tuple[Repro, Failure | None, bool]] = []
        for template, variant in forms_for(case):
            before = [(r.variant, failure, of_eager) for r, failure, of_eager in shown if r.template is template]
            if compares and not all(is_worth_trying(variant, *earlier) for earlier in before):
                continue
            try:
                repro = write_repro(case, template, variant, self.settings.memory, variables)
                control = self._control(repro, variables)
            except NoRepro as error:
                reasons[str(error)] = None
                continue
            if repro.text in tried:
                continue
            tried.add(repro.text)
            check = self._verified(repro, variables, self.settings.verify, control)
            seen = check.runs[-1].failure
            if check.holds:
                repro = with_shown_exception(repro, case, seen)
                repro.write(self.out)
                return ReproResult(case, repro, check)
            of_eager = check.control.failure if check.control is not None else None
            shown.append((repro, of_eager or seen, of_eager is not None))
            if of_eager is not None:
                what = f"a failure with the backend eager too: {of_eager.sentence}"
            else:
                what = seen.sentence if seen is not None else "no failure"
                last = check
            attempts.setdefault(what, []).append(str(self._kept(repro)))
        doubtful = (case,) if last is not None and _may_be_flaky(case, last) else ()
        shown_by = [f"{' and '.join(scripts)} showed {what}" for what, scripts in attempts.items()]
        return ReproResult(case, None, last, "; ".join([*reasons, *shown_by]), doubtful)

    def _kept(self, attempt: Repro) -> Path:
        """Write a script that did not show the failure into a folder of its own, and return its path within `out`."""
        folder = next_place("repro", self.out / ATTEMPTS)
        return attempt.write(folder).relative_to(self.out)

    def with_variables(self) -> ReproResult | None:
        """Return a repro that shows the failure with environment variables of this process; None if there is none.

        The script sets the variables that the failure needs. Its last lines name the variables with private values.
        """
        needed = self._needed_variables()
        if not needed:
            return None
        written = tuple((name, os.environ[name]) for name in needed if may_be_written(name, os.environ[name]))
        private = tuple(name for name in needed if name not in dict(written))
        unneeded = ((name, value) for name, value in self.case.state.environment if name not in needed)
        state = replace(self.case.state, environment=(*unneeded, *written))
        result = replace(self, case=replace(self.case, state=state)).search(private)
        return result if result.repro is not None else None

    def _needed_variables(self) -> tuple[str, ...]:
        """Find the environment variables that a script needs to show the failure, at most `_MAX_VARIABLES`."""
        names = others(os.environ)
        for template, variant in forms_for(self.case)[:_MAX_FORMS_WITH_VARIABLES] if names else ():
            try:
                repro = write_repro(self.case, template, variant, self.settings.memory)
            except NoRepro:  # reported when this form was tried without variables
                continue
            if self._verified(repro, names, runs=1).agrees:
                return self._bisected(repro, names)
        return ()

    def _bisected(self, repro: Repro, names: Sequence[str]) -> tuple[str, ...]:
        """Find the needed variables by halving `names`, with which the script shows the failure."""
        needed: list[str] = []
        remaining = list(names)
        while len(needed) < _MAX_VARIABLES and remaining:
            if needed and self._verified(repro, needed, runs=1).agrees:
                break
            without, enough = 0, len(remaining)
            while enough - without > 1:  # of the first `enough`, the last is needed
                middle = (without + enough) // 2
                if self._verified(repro, [*needed, *remaining[:middle]], runs=1).agrees:
                    enough = middle
                else:
                    without = middle
            needed.append(remaining[enough - 1])
            remaining = remaining[: enough - 1]
        return tuple(needed)

    def _verified(
        self, repro: Repro, variables: Sequence[str], runs: int, control: Repro | None = None
    ) -> Verification:
        settings, case = self.settings, self.case
        with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
            script = repro.write(Path(folder) / "repro")
            conditions = Conditions(
                case.failure.fingerprint,
                timeout=max(self.timeout, guard_seconds(case) + 60.0),
                extra_path=case.folders,
                match=settings.match,
                match_log=settings.match_log,
                memory=settings.memory,
                more=variables,
                any_stage=repro.template is not None and repro.template.hides_stage,
                interpreters=self.interpreters,
                renamed=repro.nodes,
            )
            beside = control.write(Path(folder) / "control") if control is not None else None
            at_once = _at_once(case, settings.memory, runs)
            check = verify(script, conditions, beside, runs, at_once, self.display)
        kill_orphans()
        return check

    def _control(self, repro: Repro, variables: tuple[str, ...]) -> Repro:
        """Return the script with eager in the place of the backend.

        The backend's imports stay: they may bring operators and drivers. If torch.compile itself fails, with any
        backend, the control runs in eager mode. Raises NoRepro if the script cannot be written.
        """
        if self.case.while_tracing:
            return replace(repro, text=in_eager(repro.text))
        assert repro.template is not None, "the script is made from a template"
        case, eager = self.case, EAGER_COMPILERS if repro.template is Template.CALL_COMPILER else EAGER
        kept = {name: getattr(case.backend, name) for name in ("imports", "folders", "ahead", "dynamic")}
        backend = replace(eager, **kept)
        variant = replace(repro.variant, compiler="fw_compiler")
        return write_repro(replace(case, backend=backend), repro.template, variant, self.settings.memory, variables)


def _may_be_flaky(case: Case, check: Verification) -> bool:
    """Whether the script ran to its end where all probes of the same Case failed."""
    return case.rate >= 1.0 and case.failure.fingerprint.kind is not Kind.TIMEOUT and check.runs[-1].failure is None


def with_shown_exception(repro: Repro, case: Case, seen: Failure | None) -> Repro:
    """Return the repro with its own exception in the last comment; the captured exception may name removed ops."""
    if seen is None or seen.fingerprint.kind is not Kind.EXCEPTION or seen.fingerprint.stage is Stage.COMPARE:
        return repro
    head, found, rest = repro.text.rpartition(f"\n# {case.failure.line}\n")
    return replace(repro, text=f"{head}\n# {seen.line}\n{rest}") if found else repro


def _at_once(case: Case, memory: int | None, runs: int) -> int:
    """Return how many scripts run at once, the control among them: 1 with too little memory or a single core."""
    most = min(runs, RUNS) + 1
    hungry = most * guard_gibibytes(case, memory) * 2**30
    return most if cores() > 1 and hungry <= (memory or hungry) else 1


def _searches(attempt: Attempt, candidates: Sequence[Case]) -> list[ReproSearch]:
    seconds = max(60.0, 10 * attempt.case.script.seconds)
    run = attempt.run
    return [
        ReproSearch(case, attempt.folder.path, seconds, run.settings, run.ui, run.interpreters) for case in candidates
    ]


def find_repro(attempt: Attempt) -> Attempt:
    """Search for a repro of the reduction's candidates, until a candidate has a repro."""
    if attempt.reduced is None:
        return attempt
    results: list[ReproResult] = []
    for search in _searches(attempt, attempt.reduced.candidates):
        results.append(search.search())
        if results[-1].repro is not None:
            return replace(attempt, repro_result=results[-1])
    reason = "; ".join(result.reason for result in results)
    doubtful = tuple(case for result in results for case in result.doubtful)
    return replace(attempt, repro_result=replace(results[-1], reason=reason, doubtful=doubtful))


def find_repro_with_variables(attempt: Attempt) -> Attempt:
    """Search for a repro that needs environment variables of this process."""
    for search in _searches(attempt, attempt.reduced.candidates if attempt.reduced is not None else ()):
        result = search.with_variables()
        if result is not None:
            return replace(attempt, repro_result=result)
    return attempt


def find_repro_as_flaky(attempt: Attempt) -> Attempt:
    """Measure the rates of the doubtful Cases, and search for a repro of a flaky Case."""
    for case in attempt.repro_result.doubtful if attempt.repro_result is not None else ():
        place = attempt.folder.empty("flaky")
        save(case, place / "case")
        try:
            _, flaky = run_reduction(attempt, place / "case", place, doubtful=True)
            if flaky.rate >= 1.0:
                continue
            save(flaky, attempt.folder.minimal)
        except StoppedEarly:
            raise
        except MinifyError as error:
            attempt.run.ui.say(f"no repro this way: {error}")
            continue
        finally:
            shutil.rmtree(place)
        attempt = find_repro(_with_minimal(attempt))
        if attempt.repro is None:
            attempt = find_repro_with_variables(attempt)
        if attempt.repro is not None:
            return attempt
    return attempt


def find_repro_with_captured_values(attempt: Attempt) -> Attempt:
    """Reduce the ops alone, with sizes, dtypes and arguments as captured, and search for a repro again."""
    assert attempt.reduced is not None, "the ops are known from the first reduction"
    settings, folder = attempt.run.settings, attempt.folder
    place, before = folder.empty("captured-values"), folder.empty("simplified")
    save(load(folder.minimal), before)
    shutil.copy(folder.journal, place)  # what is known of the ops
    rest = limited(settings, attempt.reduced.summary)
    rest = replace(rest, skipped=(*settings.skipped, *OF_VALUES))
    again = attempt
    try:
        summary, minimal = run_reduction(attempt, folder.case, place, rest)
        save(minimal, folder.minimal)
        again = find_repro(_with_minimal(replace(attempt, reduced=Reduced(summary, minimal, (minimal,)))))
        for find_otherwise in (find_repro_with_variables, find_repro_as_flaky):
            if again.repro is None:
                again = find_otherwise(again)
    except StoppedEarly:
        raise
    except MinifyError as error:
        attempt.run.ui.say(f"no repro this way: {error}")
    finally:
        if again.repro is None:
            save(load(before), folder.minimal)
        shutil.rmtree(place)
        shutil.rmtree(before)
    return attempt if again.repro is None else again


def _with_minimal(attempt: Attempt) -> Attempt:
    """Return the attempt with the Case in its folder minimal/ as the only candidate."""
    assert attempt.reduced is not None, "a Case was reduced before it was tried"
    minimal = load(attempt.folder.minimal)  # its tensors are in a folder that stays
    return replace(attempt, reduced=replace(attempt.reduced, minimal=minimal, candidates=(minimal,)))
