"""Diagnosis from rejected simplifications: the needs of the failure, and the nearest Case that passes."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

from minifier.case import Case, Drawn, TensorInput
from minifier.case.edit import edit_from
from minifier.case.inputs import views_among
from minifier.case.ops import atoms, with_ops
from minifier.case.script_floats import floats_in_tensors
from minifier.failure import Verdict
from minifier.passes.data import plain
from minifier.passes.edits import Edit
from minifier.passes.resized import with_tensors
from minifier.passes.sizes import numbers, to_number
from minifier.reduction.simplify import Simplifier, Spent

_NOT_OBVIOUS = ("sizes", "dims", "dtypes", "layout")  # passes about needs that a reader of the repro may overlook
_INFORMATIVE = ("sizes", "dtypes", "layout", "data", "literals", "arguments")  # passes, the most informative first
_SIZE = "size "
_ENDS = 2  # of the values that an input may have


def with_needs(simplifier: Simplifier) -> Case:
    """Add to the Case sentences about the sizes, dtypes, layouts and values that the failure needs.
    A larger size and a multiple are also tried, to tell a minimum from an exact size, and size 1 with other values, to
    tell a size from a value."""
    if simplifier.case.any_graph:
        return simplifier.case
    sentences: list[str] = []
    for family, name in simplifier.rejected:
        if family in _NOT_OBVIOUS:
            sentences.append(_size_need(simplifier, name) if name.startswith(_SIZE) else _need(family, name))
    if simplifier.case.has_other_sizes:
        sentences.append("code that was compiled with another size")
    views = views_among(simplifier.case.inputs)
    floats = floats_in_tensors(simplifier.case)
    tensors = [i for i in simplifier.case.inputs if isinstance(i, TensorInput) and i.name not in floats]
    sentences += ["inputs that share memory" if item.name in views else _values_need(item) for item in tensors]
    return replace(simplifier.case, needs=tuple(dict.fromkeys(filter(None, sentences))))


def _size_need(simplifier: Simplifier, name: str) -> str:
    size = int(name.removeprefix(_SIZE))
    if size == 0:
        return "a size of 0"
    taken = numbers(simplifier.case)  # two sizes that become equal are another change: Dynamo takes them for one
    more = next(n for n in itertools.count(size + 1) if n not in taken and n % size)
    multiple = next(n for n in itertools.count(2 * size, size) if n not in taken)
    try:
        if simplifier.shows([_at_an_end(to_number(size, 1)[0], end) for end in range(_ENDS)]):
            return ""  # a smaller size failed to show it for its only draw
        larger = simplifier.shows(to_number(size, more))
        if larger:
            return f"a size of {size} or more"
        at_multiple = simplifier.shows(to_number(size, multiple))
        if at_multiple:
            return f"a size that is a multiple of {size}"
    except Spent:
        return f"a size of {size}"
    return f"a size of {size}" if larger is None or at_multiple is None else f"a size of exactly {size}"


def _at_an_end(edit: Edit, end: int) -> Edit:
    """Return the edit with the lowest (`end` 0) or the highest value in place of all values drawn from a range.

    Normal values become -1 in place of the lowest. It changes nothing if no value is drawn.
    """

    def one_value(item: TensorInput) -> TensorInput:
        drawn = item.source
        if drawn == Drawn("randn") and end == 0:
            return replace(item, source=Drawn("full", -1.0))
        if not isinstance(drawn, Drawn) or drawn.how not in ("rand", "randint"):
            return item
        if drawn.how == "randint":
            assert isinstance(drawn.low, int) and isinstance(drawn.high, int), "as drawn"
            return replace(item, source=Drawn("full", (drawn.low, drawn.high - 1)[end]))
        low = drawn.low or 0.0
        return replace(item, source=Drawn("full", (low, low + drawn.spread)[end]))

    def changed(case: Case) -> Case:
        redrawn = with_tensors(case, one_value)
        return case if redrawn == case else edit(redrawn)

    return changed


def _values_need(item: TensorInput) -> str:
    if item.source == plain(item, None):
        return ""
    if not isinstance(item.source, Drawn) or item.source.how == "list":
        return "these values"
    return "values in a range" if item.source.how in ("rand", "full", "randint") else ""


def _need(family: str, name: str) -> str:
    if family == "dims":
        return name.replace("first of ", "an input of ") if name.startswith("first of") else ""
    if family == "dtypes":
        return name
    return "an input that is not contiguous" if family == "layout" else ""


def nearest(simplifier: Simplifier) -> Case | None:
    """Return the passing Case closest to the minimal Case, or None: their difference is often the diagnosis.
    Rejected simplifications come first: the most informative, then the smallest edit. Without any, the minimal graph is
    probed without its last op."""
    case, runner = simplifier.case, simplifier.runner
    if simplifier.passing_variants:
        return min(simplifier.passing_variants, key=lambda pair: _distance(case, *pair))[1]
    groups = atoms(case.graph)
    if len(groups) < 2:
        return None
    shorter = with_ops(case, [name for group in groups[:-1] for name in group])
    (judged,) = runner.probe([shorter])
    return shorter if judged.verdict is Verdict.PASS else None


def _distance(case: Case, family: str, variant: Case) -> tuple[int, int]:
    rank = _INFORMATIVE.index(family) if family in _INFORMATIVE else len(_INFORMATIVE)
    return rank, len(json.dumps(edit_from(case, variant)))
