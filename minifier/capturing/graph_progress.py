"""Tell of the graphs of a running script, as its event log grows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.capturing.events import EventReader
from minifier.process.progress import Progress, Ui, counted


class GraphProgress:
    """Shows `progress` of a script's run, with the last graph that a backend got. `tick` reads what was logged."""

    def __init__(self, folder: Path, progress: Progress, ui: Ui) -> None:
        self._events, self._progress, self._ui = EventReader(folder), progress, ui
        self._graphs: dict[int, str] = {}
        ui.show(progress)

    def tick(self) -> None:
        """Show the last graph, and let time pass on the display."""
        for event in self._events.new_events():
            self._tell(event)
        self._ui.tick()

    def _tell(self, event: dict[str, Any]) -> None:
        what, number = event["event"], event.get("number", 0)  # the first graph is 1
        if what == "compiling":
            ops = counted(event["ops"], "op") if event["ops"] is not None else "not readable"
            self._graphs[number] = f"graph {number}: {ops} → {event['backend']}"
        graph = self._graphs.get(number, "")
        step = {
            "compiling": f"{graph}, compiling",
            "compiled": f"{graph}, compiled in {event.get('seconds', 0.0):.1f} s",
            "compared": f"{graph}, compared with eager",
            "failed": f"{graph}, failed",
            "declined": f"{graph}, declined",
        }.get(what)
        if graph and step:
            self._ui.show(replace(self._progress, step=step))
            self._ui.detail(step)
