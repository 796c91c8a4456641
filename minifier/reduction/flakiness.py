"""What failures that come and go ask of a reduction: how often one shows, and whether an answer was chance."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case
from minifier.failure import Kind, Verdict
from minifier.probe.verdicts import Judged
from minifier.reduction.probe_runner import ProbeRunner

_TRIES = 24  # of a Case, before a failure that does not show is taken to be gone
_TRY_SECONDS = 60.0
_EXPENSIVE = 5.0  # seconds of a probe that are not spent to see the same twice
_CHEAP = 1.0  # seconds of a probe of the reduced graph up to which it is made some times more
_CONFIRMING = 3
_AGAINST_DOUBT = 12
_TOLERATED = 0.01  # how likely the probes of a finished search may have missed the failure
_CALLED = 3  # tries that tell a later call from bad luck


def tries_of(lab: ProbeRunner, case: Case) -> list[Judged]:
    """Two tries, one if that is expensive; as soon as they do not agree, as many as tell the rate."""
    known = case.script.seconds
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        return lab.probe([case])
    tries = lab.probe([case] * (2 if lab.workers > 1 and known < _EXPENSIVE else 1))
    if len(tries) == 1 and tries[0].verdict is Verdict.SAME and tries[0].seconds < _EXPENSIVE:
        tries += lab.probe([case])
    verdicts = {judged.verdict for judged in tries}
    if not lab.doubtful and verdicts in ({Verdict.SAME}, {Verdict.OTHER}, {Verdict.UNRESOLVED}):
        return tries
    while len(tries) < _TRIES and sum(judged.seconds for judged in tries) < _TRY_SECONDS:
        tries += lab.probe([case])
    return tries


def fewest_calls(lab: ProbeRunner, case: Case) -> Case:
    """A failure seen at a later call may need that call's inputs, a second call, all the calls before it; or it comes
    and goes, and spared the first ones by chance."""
    if case.calls == 1:
        return case
    once = replace(case, calls=1)
    tries = lab.probe([once])
    while len(tries) < _CALLED and tries[-1].seconds < _CHEAP and case.failure.fingerprint.kind is not Kind.TIMEOUT:
        tries += lab.probe([once])
    verdicts = {judged.verdict for judged in tries}
    if Verdict.SAME in verdicts:
        lab.doubtful = lab.doubtful or len(verdicts) > 1
        return once
    twice = replace(case, calls=2)
    if case.calls > 2 and lab.probe([twice])[0].verdict is Verdict.SAME:
        return twice
    return case


def in_one_call(lab: ProbeRunner, case: Case) -> Case:
    """The Case with one call, where a failure that comes and goes does so in one; sets the rate then."""
    if case.calls == 1 or lab.last_seconds > _CHEAP or case.failure.fingerprint.kind is Kind.TIMEOUT:
        return case
    once = replace(case, calls=1)
    tries = _tries(lab, once, _TRIES if lab.repeats > 1 else _AGAINST_DOUBT)
    if not any(judged.verdict is Verdict.SAME for judged in tries):
        return case
    _expect(lab, tries)
    return once


def misjudged(lab: ProbeRunner, case: Case) -> bool:
    """Whether a reduced Case, known to fail, does so less often than was believed: then the search took chance for an
    answer. Sets the rate. A failure that shows in most runs can pass the check phase as one that shows in all."""
    if lab.last_seconds > _CHEAP:
        return False
    lab.phase = "check"
    certain = lab.repeats == 1
    enough = _TRIES if not certain else _AGAINST_DOUBT if lab.contradicts(case) else _CONFIRMING
    tries = _tries(lab, case, enough)
    if certain and not all(judged.verdict is Verdict.SAME for judged in tries):
        tries += _tries(lab, case, _TRIES - enough)
    missed = lab.misses(_shown(tries) / len(tries))
    _expect(lab, tries)
    return missed > _TOLERATED


def _tries(lab: ProbeRunner, case: Case, number: int) -> list[Judged]:
    """Single probes, however often one is to be repeated."""
    repeats, lab.repeats = lab.repeats, 1
    tries = [lab.probe([case])[0] for _ in range(number)]
    lab.repeats = repeats
    return tries


def _expect(lab: ProbeRunner, tries: list[Judged]) -> None:
    lab.expect(max(1, _shown(tries)), len(tries))


def _shown(tries: list[Judged]) -> int:
    return sum(judged.verdict is Verdict.SAME for judged in tries)
