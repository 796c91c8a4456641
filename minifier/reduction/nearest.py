"""The nearest Case that passes: what was taken away last, and the failure went. It is often the diagnosis."""

from __future__ import annotations

import json

from minifier.case import Case
from minifier.case.edit import edit_from
from minifier.case.ops import atoms, with_ops
from minifier.failure import Verdict
from minifier.reduction.simplify import Simplifier

_TELLING = ("sizes", "dtypes", "layout", "data", "literals", "arguments")  # passes, the most telling first


def _distance(case: Case, family: str, other: Case) -> tuple[int, int]:
    rank = _TELLING.index(family) if family in _TELLING else len(_TELLING)
    return rank, len(json.dumps(edit_from(case, other)))


def nearest(simplifier: Simplifier) -> Case | None:
    """Of what the refused rows of the passes left, and passed, the Case that tells most and differs least from the
    plainest one. Where there is none, that one without its last op, if it has several and passes then. None where
    nothing is known."""
    case, lab = simplifier.case, simplifier.lab
    if simplifier.neighbours:
        return min(simplifier.neighbours, key=lambda pair: _distance(case, *pair))[1]
    groups = atoms(case.graph)
    if len(groups) < 2:
        return None
    less = with_ops(case, [name for group in groups[:-1] for name in group])
    (judged,) = lab.probe([less])
    return less if judged.verdict is Verdict.PASS else None
