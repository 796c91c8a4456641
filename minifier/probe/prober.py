"""Probes each candidate in a child of this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from minifier.case import Case
from minifier.failure import Kind, Stage
from minifier.interfaces.names import INDUCTOR_MODULES
from minifier.probe.children import COMPILED, ChildEnd, run_children
from minifier.probe.evaluate import evaluate, evaluate_and_tell
from minifier.probe.life import Job, Limits
from minifier.probe.prepared_case import PreparedCase
from minifier.torch_private import INDUCTOR, link_libraries

_KILLED = (Kind.TIMEOUT, Kind.SIGNAL, Kind.EXIT, Kind.OUT_OF_MEMORY)


class Prober(Protocol):
    """Builds and runs candidates, all at once, each in a process that may die.
    `slots` is their maximal number; None if the caller decides."""

    slots: int | None

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """Return how each candidate ended; stages after `until` may be left out."""


class LocalProber:
    """Forks a child for each candidate. Preloads the modules of torch that its first children imported."""

    slots: int | None = None

    def __init__(self, prepared: PreparedCase, scratch: Path) -> None:
        self.prepared, self.scratch = prepared, scratch
        # A killed script may have left a half-written library.
        killed = prepared.case.failure.fingerprint.kind in _KILLED
        link_libraries(scratch / COMPILED, checks_only=killed)
        if prepared.case.backend.name == INDUCTOR and not prepared.imports_in_child:
            self.preload(INDUCTOR_MODULES)

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """Return how each candidate ended; stages after `until` may be left out."""

        def job(case: Case) -> Job:
            work = evaluate_and_tell if self.prepared.asks_for_imports else evaluate
            return lambda: work(self.prepared, case, until)

        ended = run_children([job(case) for case in cases], limits, self.scratch)
        loaded = [end.loaded for end in ended if end.loaded or end.result is not None]  # a dead child reports nothing
        if self.prepared.asks_for_imports and loaded:
            self.preload(max(loaded, key=len))
        return ended

    def preload(self, modules: Sequence[str]) -> None:
        """Import modules of torch for all later children."""
        self.prepared.preload(modules, self.scratch / COMPILED)
