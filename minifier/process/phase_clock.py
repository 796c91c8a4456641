"""How long each phase of a run takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from minifier.process.progress import SILENT, Phase, Progress, Ui


class PhaseClock(Ui):
    """Hands everything to another display, and counts the seconds of each phase that is shown."""

    def __init__(self, ui: Ui = SILENT, now: Callable[[], float] = time.monotonic) -> None:
        self._ui, self._now = ui, now
        self.restart()

    def restart(self) -> None:
        """Begin anew, at no second of any phase."""
        self._phase: Phase | None = None
        self._begun = self._since = self._now()
        self._seconds: dict[str, float] = {}

    @property
    def total(self) -> float:
        """Return the seconds since the beginning."""
        return self._now() - self._begun

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase so far, by name; the time before the first phase belongs to that phase."""
        if self._phase is not None:
            self._count(self._phase)
        return dict(self._seconds)

    def show(self, progress: Progress) -> None:
        """Count, and hand on."""
        if progress.phase is not self._phase:
            self._count(self._phase or progress.phase)
            self._phase = progress.phase
        self._ui.show(progress)

    def _count(self, phase: Phase) -> None:
        now, name = self._now(), phase.name.lower()
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._since = now

    def tick(self) -> None:
        """Hand on."""
        self._ui.tick()

    def say(self, text: str) -> None:
        """Hand on."""
        self._ui.say(text)

    def detail(self, text: str) -> None:
        """Hand on."""
        self._ui.detail(text)

    def error(self, text: str) -> None:
        """Hand on."""
        self._ui.error(text)

    def ask(self, question: str) -> bool:
        """Hand on."""
        return self._ui.ask(question)
