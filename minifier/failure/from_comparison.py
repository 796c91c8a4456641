"""A comparison's differences as one failure."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.failure.difference import Aspect, Difference
from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.kinds import Kind, Stage

# What a user minds most comes first.
_RANKS = {
    aspect: rank
    for rank, aspect in enumerate(
        (
            Aspect.PREDICATE,
            Aspect.NO_EXCEPTION,
            Aspect.NON_FINITE,
            Aspect.VALUES,
            Aspect.GRADIENT,
            Aspect.MUTATION,
            Aspect.SHAPE,
            Aspect.STRUCTURE,
            Aspect.DTYPE,
            Aspect.DEVICE,
            Aspect.ALIASING,
            Aspect.STRIDE,
        )
    )
}


def failure_of_differences(differences: Sequence[Difference], sought: Fingerprint | None = None) -> Failure:
    """The failure that is told: the one sought if it is among them, else the worst, forward results before gradients.

    Its identity is the aspect alone: how far a value is off, and in which output, is another matter in every
    candidate.
    """
    ranked = sorted(differences, key=lambda each: (each.is_of_backward, _RANKS[each.aspect]))
    wanted = [each for each in ranked if sought is not None and each.aspect.value == sought.message]
    told = (wanted or ranked)[0]
    kind = Kind.NON_FINITE if told.aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    rest = tuple(each for each in ranked if each is not told)
    text = "".join(f"{each.sentence}\n" for each in (told, *rest))
    fingerprint = Fingerprint(Stage.COMPARE, kind, message=told.aspect.value)
    return Failure(fingerprint, kind.value, told.sentence, text, differences=(told, *rest))
