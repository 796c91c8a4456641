"""Longer time limits for probes, where candidates run out of time: what passes may take longer than what fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minifier.probe.verdicts import Judged

MAX_TIMEOUT_SECONDS = 300.0
_MIN_SLOW = 2  # candidates that run out of time before they get more; one may hang
_MAX_VAIN_SECONDS = 300.0  # of repetitions that gave no answer either: these candidates hang


@dataclass
class TimeGrowth:
    """Doubles the limit after two candidates ran out of time, up to 300 s, unless that never helps."""

    _slow: int = 0
    _vain_seconds: float = 0.0
    _first_limit: float = 0.0

    def give_more(self, judged: list[Judged], limit: float, repeat: Callable[[int, float], Judged]) -> float:
        """Repeat, by place and limit, what ran out of time, if it is enough by now; return the limit from now on."""
        slow = [place for place, each in enumerate(judged) if each.ran_out_of_time]
        self._slow += len(slow)
        in_vain = self._vain_seconds >= _MAX_VAIN_SECONDS or limit >= MAX_TIMEOUT_SECONDS
        if not slow or self._slow < _MIN_SLOW or in_vain:
            return limit
        self._first_limit = self._first_limit or limit
        longer = min(2 * limit, MAX_TIMEOUT_SECONDS)
        for place in slow:
            judged[place] = repeat(place, longer)
        self._slow = sum(judged[place].ran_out_of_time for place in slow)
        self._vain_seconds = 0.0 if self._slow < len(slow) else self._vain_seconds + self._slow * longer
        return longer if self._vain_seconds < _MAX_VAIN_SECONDS else self._first_limit
