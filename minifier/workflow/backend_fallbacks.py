"""Tell what backends did with their graphs besides compiling them."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.capturing.captured import Captured


@dataclass(frozen=True, slots=True)
class BackendFallbacks:
    """The exceptions that a backend caught itself, and the graphs that ran elsewhere: a head, lines, and advice."""

    head: str
    lines: tuple[str, ...]
    advice: str


def backend_fallbacks(compared: Captured | None) -> BackendFallbacks | None:
    """Describe the fallbacks of a run that compared results; None without any. Only that run watches for them."""
    if compared is None or not compared.fallbacks:
        return None
    left = len({seen.graph for seen in compared.fallbacks if seen.is_whole})
    graphs = len(compared.forwards)
    backends = ", ".join(compared.backends)
    lines = tuple(dict.fromkeys(f"graph {seen.graph}: it {seen.sentence}" for seen in compared.fallbacks))
    if all(seen.is_plain for seen in compared.fallbacks):
        return BackendFallbacks(f"{backends} hands work to inductor", lines, "")
    head = f"{backends} caught exceptions of its own"
    if left:
        ran = "none" if left == graphs else str(graphs - left)
        head = f"{backends} ran {ran} of {graphs} graph{'s' if graphs != 1 else ''} itself"
    if any(seen.line and not seen.is_plain for seen in compared.fallbacks):
        return BackendFallbacks(head, lines, "With --fallbacks that is a failure, and is reduced like any other.")
    advice = "No line of a log was heard about that, which a repro could show: --fallbacks does not count it."
    return BackendFallbacks(head, lines, advice)
