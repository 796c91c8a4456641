"""How candidates are probed, by what the first probes show, and how often a flaky failure shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from minifier.data.case import Call, Case
from minifier.data.case.calls import called, paused
from minifier.data.failure import Failure, Kind, Verdict
from minifier.data.failure.likeness import raised_alike
from minifier.data.failure.normalise import share_words
from minifier.process.machine import available, cores
from minifier.reduction.probe.verdicts import Judged
from minifier.reduction.probe_runner import MAX_TIMEOUT_SECONDS, ProbeRunner

_MAX_TRIES = 24  # of a Case, before a failure that does not show counts as gone
_MAX_TRIES_SECONDS = 60.0
_EXPENSIVE_PROBE_SECONDS = 5.0  # from here on, an answer is not confirmed by a second probe
_CHEAP_PROBE_SECONDS = 1.0  # up to here, the reduced graph is probed several more times
_CONFIRMING_TRIES = 3
_TRIES_IN_DOUBT = 12
_MAX_TRIES_FOR_FORMS = 6  # of a Case that shows another failure each time
_MAX_MISS_CHANCE = 0.05  # that probes of a finished search missed the failure
_MAX_LUCK = 0.01  # the chance that a flaky failure shows in every try, and is taken for a certain one
_CERTAIN_TRIES = 4  # in which the failure shows after a pause
_PAUSES = (0.1, 0.3, 1.0, 3.0, 10.0)  # between two calls, in seconds
_MAX_CHEAP_PAUSE = 1.0
_CALL_TRIES = 3  # tell a failure of a later call from bad luck


def tries_of(runner: ProbeRunner, case: Case) -> list[Judged]:
    """Try the Case twice, or once if that is expensive or hangs.

    More tries measure the rate if the answers differ or all pass. If all show another failure, more tries collect the
    forms of a race.
    """
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        return runner.probe([case])
    tries = runner.probe([case] * (2 if runner.workers > 1 and case.script.seconds < _EXPENSIVE_PROBE_SECONDS else 1))
    if len(tries) == 1 and tries[0].verdict is Verdict.SAME and tries[0].seconds < _EXPENSIVE_PROBE_SECONDS:
        tries += runner.probe([case])
    if all(judged.verdict is Verdict.OTHER for judged in tries):
        while len(tries) < _MAX_TRIES_FOR_FORMS and tries[-1].verdict is Verdict.OTHER:
            tries += runner.probe([case])
    verdicts = {judged.verdict for judged in tries}
    if not runner.doubtful and verdicts in ({Verdict.SAME}, {Verdict.OTHER}, {Verdict.UNRESOLVED}):
        return tries
    while len(tries) < _MAX_TRIES and sum(judged.seconds for judged in tries) < _MAX_TRIES_SECONDS:
        tries += runner.probe([case])
    return tries


def seek_forms(runner: ProbeRunner, tries: list[Judged]) -> bool:
    """Seek the other failures of a Case's tries as forms of the sought failure, if this failure showed too.
    Their verdicts in `tries` become SAME. Return whether there were any."""
    forms = [each.failure for each in tries if each.verdict is Verdict.OTHER and each.failure is not None]
    if not forms or not _shown(tries):
        return False
    failure = runner.prepared.case.failure
    known = dict.fromkeys((*failure.fingerprint.forms, *(form.fingerprint for form in forms)))
    runner.seek(replace(failure, fingerprint=replace(failure.fingerprint, forms=tuple(known))))
    runner.others = [other for other in runner.others if other.failure.fingerprint not in known]
    tries[:] = [replace(each, verdict=Verdict.SAME) if each.failure in forms else each for each in tries]
    return True


def varies(runner: ProbeRunner, tries: list[Judged]) -> Failure | None:
    """Return another failure of the tries if most tries show the sought exception, each with a message of its own.

    A race has few forms, which come again. Where messages are drawn, the sought one may still come again by chance.
    """
    sought = runner.sought
    others = [each.failure for each in tries if each.verdict is Verdict.OTHER and each.failure is not None]
    alike = {
        other.fingerprint.message: other
        for other in others
        if raised_alike(sought, other.fingerprint) and share_words(sought.message, other.fingerprint.message)
    }
    return next(iter(alike.values())) if len(alike) > max(1, len(tries) // 2) else None


def with_pauses(runner: ProbeRunner, case: Case, calls: int, rate: float = 0.0) -> Case | None:
    """Return the Case with a pause before the failing call, if the failure is then certain; None if it is not.

    A backend may swap in what it compiled in the background, a moment after the first call: `f(x); sleep(1); f(x)`.
    The script made `calls` calls of the graph: if only one, time passed between its compilation and this call. Then a
    second call without a pause is tried first. Without all that, the Case shows the failure at this rate: what more
    calls show as often by chance tells nothing.
    """
    is_single = calls == 1 and bool(case.script.waited) and not case.failure.fingerprint.stage.compiles
    calls = 2 if is_single else calls
    longest = longest_pause(case)
    twice = [called(case, min(calls, 2))] if calls > 1 or case.others else []
    candidates = [*twice] if is_single else []
    candidates += [paused(each, pause) for each in twice for pause in _PAUSES if pause <= longest]
    numbers = sorted({min(calls, 2**power + 1) for power in range(1, calls.bit_length() + 1)}) if calls > 2 else []
    candidates += [paused(called(case, number), longest) for number in numbers]
    if calls > 2:
        candidates.append(replace(twice[0], before=(*paused(twice[0], longest).before, Call(pause=longest))))
    is_hang = case.failure.fingerprint.kind is Kind.TIMEOUT
    for candidate in candidates:
        by_chance = 1.0 - (1.0 - rate) ** candidate.calls  # each call may show a flaky failure
        needed = max(_CERTAIN_TRIES, _tries_to_tell(by_chance, _MAX_LUCK / len(candidates)))
        if needed <= _MAX_TRIES and _is_certain(runner, candidate, 1 if is_hang else needed):
            return _with_margin(candidate)
    return None


def longest_pause(case: Case) -> float:
    """Return a round number of seconds, as long as the script let pass before the failing call."""
    return next((pause for pause in _PAUSES if pause >= case.script.waited), _PAUSES[-1])


def _with_margin(case: Case) -> Case:
    """Return the Case with the next longer pause, if that is short: a busy machine needs more time than this one."""
    if not case.pauses:
        return case
    longer = (pause for pause in _PAUSES if case.before[-1].pause < pause <= _MAX_CHEAP_PAUSE)
    return paused(case, next(longer, case.before[-1].pause))


def fewest_calls(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case with as many calls as a failure at a later call needs: 1, 2 or all.
    A flaky failure may have spared the first calls by chance."""
    if case.calls == 1:
        return case
    once = called(case, 1)
    is_hang = case.failure.fingerprint.kind is Kind.TIMEOUT
    tries = runner.probe([once])
    while len(tries) < _CALL_TRIES and tries[-1].seconds < _CHEAP_PROBE_SECONDS and not is_hang:
        tries += runner.probe([once])
    verdicts = {judged.verdict for judged in tries}
    if Verdict.SAME in verdicts:
        runner.doubtful = runner.doubtful or len(verdicts) > 1
        return once
    twice = called(case, 2)
    if case.calls > 2 and runner.probe([twice])[0].verdict is Verdict.SAME:
        return twice
    return case


def in_one_call(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case with a single call, and set the rate, if the failure then shows in any try."""
    is_hang = case.failure.fingerprint.kind is Kind.TIMEOUT
    if case.calls == 1 or case.pauses or is_hang or runner.last_seconds > _CHEAP_PROBE_SECONDS:
        return case
    once = called(case, 1)
    tries = _tries(runner, once, _MAX_TRIES if runner.repeats > 1 else _TRIES_IN_DOUBT)
    if not any(judged.verdict is Verdict.SAME for judged in tries):
        return case
    expect(runner, tries)
    return once


def misjudged(runner: ProbeRunner, case: Case, *, again: bool = False) -> bool:
    """Return whether the reduced Case fails less often than assumed, so that chance misled the search; set the rate.
    A failure that shows in most runs can look constant in the check phase. `again`: the Case was made from a Case that
    was confirmed like this. Slow probes are not repeated."""
    if runner.last_seconds > (_EXPENSIVE_PROBE_SECONDS if again else _CHEAP_PROBE_SECONDS):
        return False
    seemed_certain = runner.repeats == 1
    if seemed_certain:
        in_doubt = not again and runner.contradicts(case)
        tries = _tries(runner, case, _TRIES_IN_DOUBT if in_doubt else _CONFIRMING_TRIES)
        if _shown(tries) < len(tries):
            tries += _tries(runner, case, _MAX_TRIES - len(tries))
    else:
        tries = _tries(runner, case, _MAX_TRIES)
    if seek_forms(runner, tries):
        expect(runner, tries)
        return True
    answers = [judged for judged in tries if judged.verdict is not Verdict.UNRESOLVED]
    if not answers:
        return False
    missed = (1.0 - _shown(answers) / len(answers)) ** runner.repeats  # the chance that a probe misses the failure
    expect(runner, tries)
    return missed > (0.0 if seemed_certain else _MAX_MISS_CHANCE)


def certain_again(runner: ProbeRunner, case: Case, before: Sequence[Case]) -> Case | None:
    """Return a Case whose failure is certain, in the place of one that was just seen to be flaky, at the runner's rate.

    It is the Case with a pause between its calls: a smaller graph takes less time. Else it is the last certain Case of
    those `before`, from which the Case was made.
    """
    waiting = None if case.pauses else with_pauses(runner, case, runner.prepared.case.calls, runner.rate)
    if waiting is None:
        return last_certain(runner, before)
    runner.rate, runner.repeats = 1.0, 1
    return waiting


def last_certain(runner: ProbeRunner, cases: Sequence[Case]) -> Case | None:
    """Return the last of these Cases whose failure is certain, by bisection; None if even the first one is flaky.

    Each Case was made from the Case before by an edit, and showed the failure once. The Case made from the last one was
    just seen to be flaky, with the runner's rate. A failure is certain if it shows in so many tries that a failure of
    that rate would miss one of them, 99 times in 100. Later candidates are probed as often before they count.
    """
    tries = min(_MAX_TRIES, _tries_to_tell(runner.rate))
    place = last_shown(cases, lambda each: _is_certain(runner, each, tries))
    if place < 0:
        return None
    runner.rate, runner.repeats, runner.confirmations = 1.0, 1, tries - 1
    return cases[place]


def last_shown(cases: Sequence[Case], shows: Callable[[Case], bool]) -> int:
    """Return the position of the last Case that shows a failure, by bisection; -1 if not even the first one does.

    Each Case was made from the one before. The last Case is asked first.
    """
    if cases and shows(cases[-1]):
        return len(cases) - 1
    shown, lost = -1, len(cases) - 1
    while lost - shown > 1:
        middle = (shown + lost) // 2
        shown, lost = (middle, lost) if shows(cases[middle]) else (shown, middle)
    return shown


def _tries_to_tell(rate: float, luck: float = _MAX_LUCK) -> int:
    """Return in how many tries a certain failure must show, if one of this rate may show as often, with this chance."""
    likely = min(max(rate, 1 / _MAX_TRIES), 1 - 1 / _MAX_TRIES)
    return math.ceil(math.log(luck) / math.log(likely))


def _is_certain(runner: ProbeRunner, case: Case, tries: int) -> bool:
    """Return whether the failure shows in all tries; a try that ends without an answer is no objection."""
    verdicts: list[Verdict] = []
    while len(verdicts) < tries and not {Verdict.PASS, Verdict.OTHER, Verdict.INVALID}.intersection(verdicts):
        verdicts += [judged.verdict for judged in _tries(runner, case, min(runner.workers, tries - len(verdicts)))]
    return Verdict.SAME in verdicts and {Verdict.SAME, Verdict.UNRESOLVED}.issuperset(verdicts)


def _tries(runner: ProbeRunner, case: Case, number: int) -> list[Judged]:
    """Probe the Case this often, without repetitions."""
    repeats, runner.repeats = runner.repeats, 1
    confirmations, runner.confirmations = runner.confirmations, 0
    tries: list[Judged] = []
    while len(tries) < number and sum(judged.seconds for judged in tries) < _MAX_TRIES_SECONDS:
        tries += runner.probe([case] * min(runner.workers, number - len(tries)))
    runner.repeats, runner.confirmations = repeats, confirmations
    return tries


def expect(runner: ProbeRunner, tries: list[Judged]) -> None:
    """Set the failure rate, which is that of the tries with an answer: one that hung, say, does not count."""
    set_rate(runner, max(1, _shown(tries)), sum(judged.verdict is not Verdict.UNRESOLVED for judged in tries))


def _shown(tries: list[Judged]) -> int:
    return sum(judged.verdict is Verdict.SAME for judged in tries)


_MIN_TIMEOUT_SECONDS = 2.0
_TIMEOUT_FACTOR = 10  # times the seconds of a run that ended
_COMPILE_FACTOR = 3  # times the slowest backend call of the script: what passes is compiled as a whole
_MISS_CHANCE = 0.01  # that a probe with its repetitions misses a flaky failure
_MIN_PASSING_PROBES = 12  # of a flaky failure, with all their repetitions, that its share of the budget must pay for
_PROBE_MEMORY_BYTES = 2**31  # free memory for each parallel probe
_MIN_PARALLEL_PROBE_SECONDS = 0.2  # shorter probes gain nothing from running in parallel


def set_timeout(runner: ProbeRunner, seconds: float) -> None:
    """Set the timeout from a run that ended after so many seconds: ten times as long, within 2 and 300 s.

    It is not less than this run and three times the script's slowest backend call, unless a hang is sought: every
    failing probe waits that long, and the user's timeout is an upper limit then.
    """
    is_hang = runner.sought.kind is Kind.TIMEOUT
    compiles = 0.0 if is_hang else _COMPILE_FACTOR * runner.prepared.case.script.slowest
    whole = max(_TIMEOUT_FACTOR * seconds, seconds + compiles)
    timeout = min(max(whole, _MIN_TIMEOUT_SECONDS), MAX_TIMEOUT_SECONDS)
    if runner.settings.timeout is None or is_hang:
        runner.allow(min(timeout, runner.settings.timeout or timeout))


def set_workers(runner: ProbeRunner, seconds: float) -> None:
    """Probe in parallel, up to a probe for each core, if the user set no number and a probe takes long enough.

    Parallel probes disturb each other if they share a device other than the CPU, use up the memory, or run into the
    timeout.
    """
    alone = runner.limits.memory is not None or runner.sought.kind in (Kind.TIMEOUT, Kind.OUT_OF_MEMORY)
    is_slow = seconds > _MIN_PARALLEL_PROBE_SECONDS
    if is_slow and runner.settings.workers is None and not alone and runner.prepared.case.devices <= {"cpu"}:
        runner.workers = min(cores(), max(1, available() // _PROBE_MEMORY_BYTES))


def set_rate(runner: ProbeRunner, shown: int, tries: int) -> None:
    """Set the failure rate, and how often later probes are repeated until the failure shows.

    A candidate with this rate is then missed once in a hundred probes, or more often if the budget pays for fewer
    repetitions.
    """
    runner.rate = shown / tries
    runner.repeats = 1
    if shown < tries:
        needed = math.ceil(math.log(_MISS_CHANCE) / math.log1p(-runner.rate))
        flaky_seconds = runner.settings.flaky_seconds_for(runner.prepared.case.script.seconds)
        paid = flaky_seconds / (_MIN_PASSING_PROBES * max(runner.last_seconds, 1e-3))
        runner.repeats = max(1, int(min(needed, paid)))
