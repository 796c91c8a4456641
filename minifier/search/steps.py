"""A search written as the tree of its questions.

A phase is a recursive function. The result is `Done`, or `Ask`: the next question, with a function from the answer to
the next step. Phases are chained: each is given the phase that follows. Nothing is probed while the tree unfolds, so a
walker can follow both branches of an unanswered question. That keeps workers busy, and their number cannot change the
result. (A lazily unfolded decision tree; Python's usual generator could be resumed only once.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from minifier.search.masks import Mask
from minifier.search.result import SearchPhase


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search: `kept` fails, and every phase, including the proof, is complete."""

    kept: Mask


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: does `candidate` fail? A failing candidate becomes the best so far.

    `chance` is the likelihood of "yes", and steers only speculation. `answered` may be called with both answers, and
    more than once: side effects are forbidden. If `inferable`, "no" may be inferred without a probe from a larger
    candidate that passes (domination).
    """

    phase: SearchPhase
    candidate: Mask
    chance: float
    answered: Callable[[bool], Step]
    inferable: bool = False


Step: TypeAlias = Ask | Done

Reduced: TypeAlias = Callable[[Mask], Step]
"""The next phase, called with a failing set, smaller than before or the same."""
