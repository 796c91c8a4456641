"""Repros, each tried in fresh interpreters until one shows the failure."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minifier.case import BackendReference, BackendSource, Case
from minifier.case.variables import may_be_written, others
from minifier.emit.repro import Repro, forms_for, guard_gibibytes, guard_seconds, is_worth_trying, write_repro
from minifier.errors import NoRepro
from minifier.failure import Failure, Kind, Stage
from minifier.process.progress import SILENT, Display
from minifier.process.steps import adopt_orphans, kill_orphans
from minifier.settings import Settings
from minifier.verify import RUNS, Verification, run_script, verify

_FORMS = 4  # of script, that are tried with all environment variables
_VARIABLES = 4  # that a failure may depend on
EAGER = BackendReference("eager", BackendSource.REGISTERED, '"eager"')


def may_be_flaky(case: Case, check: Verification) -> bool:
    """Whether the script ran to its end where probes of the same Case all failed."""
    return case.rate >= 1.0 and case.failure.fingerprint.kind is not Kind.TIMEOUT and check.runs[-1].failure is None


def verified_repro(
    case: Case, out: Path, timeout: float, settings: Settings, display: Display = SILENT
) -> tuple[Repro | None, Verification | None, str]:
    """The first form of repro that shows the failure in every run; else the last tried, and why not.

    It gets no environment variables but those that every shell has. If no form shows the failure so, those that it
    takes are looked for, and written into the script, or, where their values are private, told in its last lines.
    """
    adopt_orphans()
    tried: set[str] = set()
    found = _first_that_holds(case, out, timeout, settings, display, (), tried)
    if found[0] is not None:
        return found
    needed = _needed_variables(case, timeout, settings, display)
    if not needed:
        return found
    written = tuple((name, os.environ[name]) for name in needed if may_be_written(name, os.environ[name]))
    private = tuple(name for name in needed if name not in dict(written))
    given = (*((name, value) for name, value in case.state.environment if name not in needed), *written)
    case = replace(case, state=replace(case.state, environment=given))
    again = _first_that_holds(case, out, timeout, settings, display, private, set() if private else tried)
    return again if again[0] is not None else found


def _needed_variables(case: Case, timeout: float, settings: Settings, display: Display) -> tuple[str, ...]:
    """The environment variables without which no script shows the failure, if there are a few of them; beside them it
    gets those that every shell has."""
    names = others(os.environ)
    for template, variant in forms_for(case)[:_FORMS] if names else ():
        try:
            repro = write_repro(case, template, variant, settings.memory)
        except NoRepro:  # which was said when this form was tried
            continue

        def shows_with(given: Sequence[str], repro: Repro = repro) -> bool:
            return _verified(case, repro, timeout, settings, display, given, runs=1).holds

        if not shows_with(names):
            continue
        needed: list[str] = []
        left = list(names)
        while len(needed) < _VARIABLES and left:
            if needed and shows_with(needed):
                return tuple(needed)
            without, enough = 0, len(left)
            while enough - without > 1:  # of the first `enough`, the last is needed
                middle = (without + enough) // 2
                if shows_with([*needed, *left[:middle]]):
                    enough = middle
                else:
                    without = middle
            needed.append(left[enough - 1])
            left = left[: enough - 1]
        return tuple(needed)
    return ()


def _first_that_holds(
    case: Case,
    out: Path,
    timeout: float,
    settings: Settings,
    display: Display,
    more: tuple[str, ...],
    tried: set[str],
) -> tuple[Repro | None, Verification | None, str]:
    """The same with these environment variables in place; `tried` are texts of scripts that need not be tried."""
    compares = case.failure.fingerprint.stage is Stage.COMPARE
    reasons: dict[str, None] = {}
    last: Verification | None = None
    shown: list[tuple[Repro, Failure | None, bool]] = []
    for template, variant in forms_for(case):
        before = [(r.variant, failure, of_eager) for r, failure, of_eager in shown if r.template is template]
        if compares and not all(is_worth_trying(variant, *earlier) for earlier in before):
            continue
        try:
            repro = write_repro(case, template, variant, settings.memory, more)
        except NoRepro as error:
            reasons[str(error)] = None
            continue
        if repro.text in tried:
            continue
        tried.add(repro.text)
        check = _verified(case, repro, timeout, settings, display, more, settings.verify)
        seen = check.runs[-1].failure
        of_eager = (
            _difference_of_eager(case, repro, timeout, settings.memory, more, display)
            if compares and check.holds
            else None
        )
        if check.holds and of_eager is None:
            repro = _in_its_own_words(repro, case, seen)
            repro.write(out)
            return repro, check, ""
        shown.append((repro, of_eager or seen, of_eager is not None))
        what = seen.fingerprint.sentence() if seen is not None else "no failure"
        if of_eager is not None:
            what = f"the same with the backend eager: {of_eager.fingerprint.sentence()}"
        else:
            last = check
        reasons[f"the script made from {template.value}.py showed {what}"] = None
    return None, last, "; ".join(reasons)


def _in_its_own_words(repro: Repro, case: Case, seen: Failure | None) -> Repro:
    """The repro with the exception that it shows in its last comment: the script's may have named what is gone."""
    if seen is None or seen.fingerprint.kind is not Kind.EXCEPTION or seen.fingerprint.stage is Stage.COMPARE:
        return repro
    head, found, rest = repro.text.rpartition(f"\n# {case.failure.line}\n")
    return replace(repro, text=f"{head}\n# {seen.line}\n{rest}") if found else repro


def _verified(
    case: Case, repro: Repro, timeout: float, settings: Settings, display: Display, more: Sequence[str], runs: int
) -> Verification:
    with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
        check = verify(
            repro.write(Path(folder)),
            case.failure.fingerprint,
            timeout=max(timeout, guard_seconds(case) + 60.0),
            extra_path=case.folders,
            match=settings.match,
            match_log=settings.match_log,
            memory=settings.memory,
            any_stage=repro.template is not None and repro.template.hides_stage,
            more=more,
            runs=runs,
            at_once=_at_once(case, settings.memory, runs),
            display=display,
        )
    kill_orphans()
    return check


def _at_once(case: Case, memory: int | None, runs: int) -> int:
    """How many scripts run side by side: one, if the machine has too little of what they need."""
    most = min(runs, RUNS)
    hungry = most * guard_gibibytes(case, memory) * 2**30
    return most if (os.cpu_count() or 1) > 1 and hungry <= (memory or hungry) else 1


def _difference_of_eager(
    case: Case, repro: Repro, timeout: float, memory: int | None, more: Sequence[str], display: Display
) -> Failure | None:
    """What a comparing script shows where nothing is compiled; then it shows nothing about the backend. What the
    backend's own imports bring with them (operators, drivers) stays."""
    assert repro.template is not None
    eager = replace(EAGER, imports=case.backend.imports, folders=case.backend.folders)
    control = write_repro(replace(case, backend=eager), repro.template, repro.variant, memory)
    with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
        script = control.write(Path(folder))
        run = run_script(script, timeout, case.folders, case.failure.fingerprint, more=more, tick=display.tick)
    kill_orphans()
    return run.failure
