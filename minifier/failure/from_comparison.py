"""Build a failure from all differences of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.failure.difference import Aspect, Difference
from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.kinds import Kind, Stage

# Of several results, the one that is worst for a user comes first.
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
            Aspect.OVERWRITTEN,
            Aspect.SHAPE,
            Aspect.STRUCTURE,
            Aspect.DTYPE,
            Aspect.DEVICE,
            Aspect.ALIASING,
            Aspect.STRIDE,
        )
    )
}
# Of one result, `assert_close` names the first of these before any other aspect.
_SHOWN_FIRST = (Aspect.STRUCTURE, Aspect.SHAPE, Aspect.DEVICE, Aspect.DTYPE)


def failure_of_differences(differences: Sequence[Difference], sought: Fingerprint | None = None) -> Failure:
    """Return the failure of the sought aspect, else of the worst aspect of the worst result.

    Forward results come before gradients. The aspects alone identify the failure: size and place of an error vary
    between candidates. The differences of the failure's result come first, as an assertion names them. The message is
    about the failure's aspect, and about the one that an assertion names first.
    """
    results = list(dict.fromkeys(difference.where for difference in differences))
    worst = {where: min(_RANKS[d.aspect] for d in differences if d.where == where) for where in results}
    ranked = sorted(
        differences, key=lambda d: (d.is_of_backward, worst[d.where], results.index(d.where), _RANKS[d.aspect])
    )
    main = next((d for d in ranked if sought is not None and d.aspect.value == sought.message), ranked[0])
    ordered = sorted(ranked, key=lambda d: (d.where != main.where, _place(d.aspect), d is not main))
    kind = Kind.NON_FINITE if main.aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    text = "".join(f"{difference.sentence}\n" for difference in ordered)
    aspects = tuple(dict.fromkeys(difference.aspect.value for difference in ordered))
    fingerprint = Fingerprint(Stage.COMPARE, kind, message=main.aspect.value, aspects=aspects)
    message = "; ".join(dict.fromkeys((main.sentence, ordered[0].sentence)))
    return Failure(fingerprint, kind.value, message, text, differences=tuple(ordered))


def rank_of(failure: Failure) -> int:
    """Return the rank of a failure among wrong results: less is worse, and any other failure has less."""
    return _RANKS[Aspect(failure.fingerprint.message)] if failure.fingerprint.stage is Stage.COMPARE else -1


def _place(aspect: Aspect) -> int:
    """Return the place of an aspect in the order in which `assert_close` names them."""
    return _SHOWN_FIRST.index(aspect) if aspect in _SHOWN_FIRST else len(_SHOWN_FIRST)
