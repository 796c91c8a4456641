"""Search for a form of repro that shows the failure in every fresh interpreter."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.data.case import EAGER, BackendReference, Case
from minifier.data.case.run_folder import RunFolder, next_place
from minifier.data.case.switches import others
from minifier.data.failure import Failure, Kind, Stage, same
from minifier.data.failure.likeness import advice, unlike
from minifier.errors import NoRepro
from minifier.flow.attempt import Attempt, ReproResult, Run
from minifier.process.descendants import kill_orphans
from minifier.process.machine import cores
from minifier.process.progress import Phase, Progress
from minifier.repro.emit.forms import Form, Template, Variant, forms_for
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.emit.statements import guard_gibibytes, guard_seconds
from minifier.repro.source.run_source import in_eager
from minifier.repro.verify import RUNS, Conditions, Verification, verify
from minifier.search import fewest

_MAX_FORMS_WITH_VARIABLES = 4  # forms of repro that are tried with all environment variables
_MIN_SECONDS = 60.0  # for a script
_ANOTHER_RESULT = "a repro does not show the captured failure (-) but another result (+):"
_MAX_VARIABLES = 4  # that a failure may depend on


@dataclass(frozen=True, slots=True)
class ReproSearch:
    """The search for a repro of a Case, in any form or in one of `forms`. `timeout` is in seconds, for each script."""

    case: Case
    out: Path
    timeout: float
    run: Run
    forms: tuple[Form, ...] = ()

    def search(self) -> ReproResult:
        """Write the first form that shows the failure in every run to `out`. Without any, the result has the reasons.

        The scripts run with the environment variables of every shell, and those that a script says that it needs.
        """
        case = self.case
        reasons: dict[str, None] = {}
        attempts: dict[str, list[str]] = {}
        differences: dict[str, str] = {}
        last: Verification | None = None
        tried: set[str] = set()
        in_control = False  # whether the backend eager showed the failure
        forms = [*(self.forms or forms_for(case))]
        while forms:
            template, variant = forms.pop(0)
            if last is not None and not self.run.settings.seconds_left:
                reasons["the time of the run is used up"] = None
                break
            self.run.ui.show(Progress(Phase.WRITING))
            written = self._written(template, variant)
            if isinstance(written, str):
                reasons[written] = None
                continue
            repro, control = written
            if repro.text in tried:
                continue
            tried.add(repro.text)
            check: Verification | None = None
            with self.run.going_on():
                check = self.verified(repro, (), self.run.settings.verify, control)
            if check is None:
                attempts.setdefault("nothing, as minify failed", []).append(str(self._kept(repro)))
                continue
            seen = check.runs[-1].failure
            if check.holds:
                repro = with_shown_failure(repro, case, seen)
                repro.write(self.out)
                return ReproResult(case, repro, check)
            of_eager = check.control.failure if check.control is not None else None
            if is_nan := _asks_for_equal_nan(of_eager or seen, variant):
                forms.insert(0, (template, replace(variant, equal_nan=True)))  # NaN of eager's, in any result
            if of_eager is not None:
                if (is_alike := same(case.failure.fingerprint, of_eager.fingerprint)) and not is_nan:
                    forms = [each for each in forms if each != (template, replace(variant, symbolic=each[1].symbolic))]
                in_control = in_control or is_alike
                what = f"a failure with the backend eager too: {of_eager.sentence}"
            else:
                what = seen.sentence if seen is not None else "no failure"
                last = check
                if text := unlike(case.failure.fingerprint, seen, repro.hides_stage):
                    differences[text] = advice(case.failure.fingerprint, seen)
            attempts.setdefault(what, []).append(str(self._kept(repro)))
        for text, help_text in differences.items():
            self.run.ui.say("\n".join(filter(None, (_ANOTHER_RESULT, text, help_text))))
        doubtful = last is not None and _may_be_flaky(case, last)
        shown_by = [f"{' and '.join(scripts)} showed {what}" for what, scripts in attempts.items()]
        return ReproResult(case, None, last, "; ".join([*reasons, *shown_by]), doubtful, in_control)

    @property
    def seconds_for_script(self) -> float:
        """The seconds that a script may take: no more than is left to the run, but for a minute."""
        return max(_MIN_SECONDS, min(self.timeout, self.run.settings.seconds_left))

    def _written(self, template: Template, variant: Variant) -> tuple[Repro, Repro] | str:
        """Return a script and its control in this form, or why there is none."""
        try:
            with self.run.going_on():
                repro = write_repro(self.case, template, variant, self.run.settings.memory)
                return repro, self.control(repro)
        except NoRepro as error:
            return str(error)
        return "minify failed as it wrote a script"

    def _kept(self, attempt: Repro) -> Path:
        """Write a script that did not show the failure into a folder of its own, and return its path within `out`."""
        place = next_place("repro", RunFolder(self.out).attempts)
        return attempt.write(place).relative_to(self.out)

    def with_variables(self) -> ReproResult | None:
        """Return a repro that shows the failure with environment variables of this process; None if there is none.

        The script sets the variables that the failure needs. Its last lines name the variables with private values.
        """
        needed = self._needed_variables()
        if not needed:
            return None
        unneeded = ((name, value) for name, value in self.case.state.environment if name not in needed)
        state = replace(self.case.state, environment=(*unneeded, *((name, os.environ[name]) for name in needed)))
        result = replace(self, case=replace(self.case, state=state)).search()
        return result if result.repro is not None else None

    def _needed_variables(self) -> tuple[str, ...]:
        """Find the environment variables that a script needs to show the failure, at most `_MAX_VARIABLES`.

        The variables that the backend read in the script's process come first: these are few.
        """
        names = others(os.environ)
        read = tuple(name for name in names if name in self.case.backend.variables)
        for template, variant in forms_for(self.case)[:_MAX_FORMS_WITH_VARIABLES] if names else ():
            try:
                repro = write_repro(self.case, template, variant, self.run.settings.memory)
            except NoRepro:  # reported when this form was tried without variables
                continue

            def shows(variables: tuple[str, ...], repro: Repro = repro) -> bool:
                return self.verified(repro, variables, runs=1).agrees

            for group in dict.fromkeys(filter(None, (read, tuple(names)))):
                if shows(group):  # perhaps without variables too: it may be the control that fails
                    return fewest(group, shows, _MAX_VARIABLES)
        return ()

    def verified(
        self, repro: Repro, variables: Sequence[str] | None, runs: int, control: Repro | None = None
    ) -> Verification:
        """Run the script, and the control once, in fresh interpreters with these variables of this process's
        environment, with None all, and with the variables that the script needs."""
        settings, case = self.run.settings, self.case
        with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
            script = repro.write(Path(folder) / "repro")
            conditions = Conditions(
                case.failure.fingerprint,
                timeout=max(self.seconds_for_script, guard_seconds(case) + _MIN_SECONDS),
                extra_path=case.folders,
                match=settings.match,
                match_log=settings.match_log,
                memory=settings.memory,
                more=variables,
                given=repro.given,
                any_stage=repro.hides_stage,
                interpreters=self.run.interpreters,
                renamed={variable: node for node, variable in repro.names.items()},
            )
            beside = control.write(Path(folder) / "control") if control is not None else None
            at_once = _at_once(case, settings.memory, runs)
            check = verify(script, conditions, beside, runs, at_once, self.run.ui)
        kill_orphans()
        return check

    def control(self, repro: Repro) -> Repro:
        """Return the script with eager in the place of the backend.

        The backend's imports stay: they may bring operators and drivers. If torch.compile itself fails, with any
        backend, or with eager, the control runs in eager mode. Raises NoRepro if the script cannot be written.
        """
        if self.case.is_of_torch:
            return replace(repro, text=in_eager(repro.text))
        backend = in_place_of(self.case.backend, EAGER)
        return write_repro(replace(self.case, backend=backend), *repro.form, self.run.settings.memory)


def in_place_of(backend: BackendReference, eager: BackendReference) -> BackendReference:
    """Return a backend of torch's with what the backend's imports may bring."""
    kept = {name: getattr(backend, name) for name in ("imports", "folders", "ahead", "dynamic", "files")}
    return replace(eager, **kept)


def _asks_for_equal_nan(shown: Failure | None, variant: Variant) -> bool:
    return shown is not None and shown.fingerprint.kind is Kind.NON_FINITE and not variant.equal_nan


def _may_be_flaky(case: Case, check: Verification) -> bool:
    """Whether the script ran to its end where all probes of the same Case failed."""
    return case.rate >= 1.0 and case.failure.fingerprint.kind is not Kind.TIMEOUT and check.runs[-1].failure is None


def with_shown_failure(repro: Repro, case: Case, seen: Failure | None) -> Repro:
    """Return the repro with its own failure in the last comment: the captured exception may name removed ops, and the
    script's hang was waited for longer."""
    kinds = (Kind.EXCEPTION, Kind.TIMEOUT)
    if seen is None or seen.fingerprint.kind not in kinds or seen.fingerprint.stage is Stage.COMPARE:
        return repro
    head, found, rest = repro.text.rpartition(f"\n# {case.failure.line}\n")
    return replace(repro, text=f"{head}\n# {seen.line}\n{rest}") if found else repro


def _at_once(case: Case, memory: int | None, runs: int) -> int:
    """Return how many scripts run at once, the control among them: 1 with too little memory or a single core."""
    most = min(runs + 1, RUNS + 1, cores())
    hungry = most * guard_gibibytes(case, memory) * 2**30
    return most if hungry <= (memory or hungry) else 1


def search_for(attempt: Attempt, case: Case) -> ReproSearch:
    """Return the search for a repro of this Case, which the attempt was reduced to."""
    return ReproSearch(case, attempt.folder.path, max(_MIN_SECONDS, 10 * attempt.case.script.seconds), attempt.run)
