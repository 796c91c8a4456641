"""A search written as the tree of its questions.

A phase is a plain recursive function that returns its next question, `Ask`, with a function from the
answer to the step after it, or `Done`. Phases are chained by handing each the phase that follows. Nothing
is asked while the tree unfolds, so whoever walks it can look down both branches of a question that has no
answer yet: that is how workers are kept busy without the search knowing of them, and why their number
cannot change its result. (The idea is that of a decision tree unfolded lazily; a generator, Python's
usual way to write this, can be resumed only once.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .masks import Mask
from .result import SearchPhase


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search: `kept` fails, and every phase, the proof included, has had its answers."""

    kept: Mask


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: does `candidate` fail? If so it replaces the best so far.

    `chance` is the likelihood of yes and steers speculation only. `answered` must be free of side effects:
    it may be called with both answers, and more than once. Where `inferable` is set, "no" may be concluded
    from a larger candidate that does not fail (domination) instead of being probed.
    """

    phase: SearchPhase
    candidate: Mask
    chance: float
    answered: Callable[[bool], Step]
    inferable: bool = False


Step: TypeAlias = Ask | Done

Reduced: TypeAlias = Callable[[Mask], Step]
"""What follows a phase: it is given a failing set, smaller than before or the same."""
