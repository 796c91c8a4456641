"""What cannot be used in this torch, as sentences: of one run at a time, and of this process outside of runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Listener = Callable[[str], object]


@dataclass
class _Losses:
    sentences: dict[object, str] = field(default_factory=dict)  # by what is lost; by themselves from other processes
    listeners: list[Listener] = field(default_factory=list)


_current = _Losses()


@contextlib.contextmanager
def losses_of_a_run() -> Iterator[None]:
    """Begin without losses and listeners, and restore the earlier ones afterwards."""
    global _current
    before, _current = _current, _Losses()
    try:
        yield
    finally:
        _current = before


def on_loss(listener: Listener) -> None:
    """Call `listener(sentence)` for each known loss, and for each later one."""
    for sentence in losses():
        listener(sentence)
    _current.listeners.append(listener)


def lose(what: object, sentence: str) -> None:
    """Tell the listeners, once, that an interface cannot be used."""
    if what not in _current.sentences:
        _current.sentences[what] = sentence
        for listener in _current.listeners:
            listener(sentence)


def heard(sentence: str) -> None:
    """Remember what another process has lost."""
    if sentence not in losses():
        _current.sentences[sentence] = sentence


def losses() -> list[str]:
    """Return a sentence for each interface that was needed, or looked for, and cannot be used."""
    return list(_current.sentences.values())
