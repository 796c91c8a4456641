"""One failure from all differences of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.failure.difference import Aspect, Difference
from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.kinds import Kind, Stage

# The worst for a user comes first.
_RANKS = {
    aspect: rank
    for rank, aspect in enumerate(
        (
            Aspect.PREDICATE,
            Aspect.NO_EXCEPTION,
            Aspect.NON_FINITE,
            Aspect.VALUES,
            Aspect.GRADIENT,
            Aspect.AUTOGRAD,
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
    """Return the failure of the sought aspect, else of the worst; forward results come before gradients.

    The aspect alone identifies it: size and place of an error vary between candidates.
    """
    ranked = sorted(differences, key=lambda difference: (difference.is_of_backward, _RANKS[difference.aspect]))
    main = next((d for d in ranked if sought is not None and d.aspect.value == sought.message), ranked[0])
    ordered = (main, *(difference for difference in ranked if difference is not main))
    kind = Kind.NON_FINITE if main.aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    text = "".join(f"{difference.sentence}\n" for difference in ordered)
    fingerprint = Fingerprint(Stage.COMPARE, kind, message=main.aspect.value)
    return Failure(fingerprint, kind.value, main.sentence, text, differences=ordered)
