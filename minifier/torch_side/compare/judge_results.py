"""Judge all differing tensors of two results, with as few runs of eager as the verdicts need."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.data.failure import Aspect, Difference, ElementPair
from minifier.torch_side.compare.judge_tensor import (
    Judgement,
    Sample,
    depends_on_draws,
    eps_of,
    is_near,
    is_visible,
    judge_draws,
    judge_exact,
    judge_floats,
    visible_elements,
)
from minifier.torch_side.compare.results import Results, are_identical, dense, is_float
from minifier.torch_side.compare.runs import EagerRuns

_MAX_ELEMENTS = 4

Key = tuple[str, int]  # ("output" | "input" | "gradient", position)


@dataclass
class TensorPair:
    """A compiled tensor and eager's, of equal shape; `where` is their name for the user."""

    where: str
    aspect: Aspect
    compiled: torch.Tensor
    eager: torch.Tensor


def differing_pairs(
    compiled: Results, eager: Results, names: Sequence[str], ignored: Collection[Aspect]
) -> dict[Key, TensorPair]:
    """Return the tensors to judge by their values: same shape, but not bit for bit equal."""
    pairs: dict[Key, TensorPair] = {}
    groups: tuple[tuple[str, Aspect, list[Any], list[Any]], ...] = (
        ("output", Aspect.VALUES, compiled.outputs, eager.outputs),
        ("input", Aspect.MUTATION, compiled.inputs, eager.inputs),
        ("gradient", Aspect.GRADIENT, compiled.gradients, eager.gradients),
    )
    for group, aspect, compiled_values, eager_values in groups:
        if {aspect, Aspect.NON_FINITE} <= set(ignored):
            continue
        for i, (c, e) in enumerate(zip(compiled_values, eager_values, strict=False)):
            if group == "gradient":
                c = torch.zeros_like(e) if c is None and e is not None else c  # noqa: PLW2901
                e = torch.zeros_like(c) if e is None and c is not None else e  # noqa: PLW2901
            if not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
                continue
            if c.shape != e.shape or c.device != e.device or not e.numel():
                continue
            if c.dtype != e.dtype or not are_identical(c, e):
                of_name = "gradient of {}" if group == "gradient" else "input {} after the call"
                where = f"output {i}" if group == "output" else of_name.format(names[i])
                pairs[group, i] = TensorPair(where, aspect, dense(c), dense(e))
    return pairs


def value_of(results: Results | None, key: Key, pair: TensorPair) -> torch.Tensor | None:
    """Return another run's tensor for this pair, or None if its shape differs."""
    if results is None:
        return None
    group, i = key
    values = {"output": results.outputs, "input": results.inputs, "gradient": results.gradients}[group]
    value = values[i] if i < len(values) else None
    if value is None and group == "gradient":
        return torch.zeros_like(pair.eager)
    if not isinstance(value, torch.Tensor) or value.shape != pair.eager.shape:
        return None
    return dense(value)


def difference_of(pair: TensorPair, judgement: Judgement) -> Difference:
    """Describe a wrong tensor."""
    return replace(_described(pair, judgement), has_nan=is_float(pair.eager) and bool(pair.eager.isnan().any()))


def _described(pair: TensorPair, judgement: Judgement) -> Difference:
    error, own, noise = judgement.error, judgement.eager_error, judgement.noise
    elements = furthest_elements(pair.compiled, pair.eager)
    if judgement.non_finite:
        count = int((pair.compiled.isfinite() != pair.eager.isfinite()).sum()) or int(
            pair.eager.isfinite().logical_not().sum()
        )
        sentence = f"{pair.where} has other NaNs or infinities than eager in {count} of {pair.eager.numel()} elements"
        return Difference(Aspect.NON_FINITE, pair.where, sentence, error, own, noise, elements)
    if not is_float(pair.eager):
        count = int((pair.compiled != pair.eager).sum())
        sentence = f"{pair.where} differs from eager's in {count} of {pair.eager.numel()} elements"
        return Difference(pair.aspect, pair.where, sentence, error, own, noise, elements)
    if own:
        sentence = f"{pair.where} is off from double precision by {error:.2g}, eager by {own:.2g}"
    else:
        sentence = f"{pair.where} is off from eager's by {error:.2g}"
    if noise:  # exactly read inputs were not moved
        sentence += f"; a few rounding errors in the inputs move eager by {noise:.2g}"
    return Difference(pair.aspect, pair.where, sentence, error, own, noise, elements)


def excused_difference(pair: TensorPair, judgement: Judgement, samples: Sequence[Sample]) -> Difference | None:
    """Describe a difference that eager's own variation excuses; None if only rounding or unwritten memory differ.

    Unwritten memory is NaN in one of the samples, and a number in eager or in another.
    """
    visible = visible_elements(pair.compiled, pair.eager)
    if is_float(pair.eager) and samples:
        nans = torch.stack([_real(sample.value).isnan() for sample in samples])
        visible &= ~(nans.any(0) & ~(nans.all(0) & _real(pair.eager).isnan()))
    if not visible.any():
        return None
    noise = max((_distance(sample.value, pair.eager) for sample in samples), default=None)
    return _described(pair, replace(judgement, noise=noise))


def _real(value: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).flatten()


def _distance(value: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest distance between two elements; infinite where non-finite elements differ."""
    a, b = _real(value).double(), _real(other).double()
    distance = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    return float(distance.nan_to_num(nan=float("inf"), posinf=float("inf")).max()) if distance.numel() else 0.0


def furthest_elements(compiled: torch.Tensor, eager: torch.Tensor) -> tuple[ElementPair, ...]:
    """Return up to four differing elements of tensors of equal shape, by their distance; NaNs and infinities first."""
    c, e = compiled.detach().flatten(), eager.detach().flatten()
    if not e.numel():
        return ()
    wide = torch.complex128 if c.is_complex() or e.is_complex() else torch.float64
    distances = (c.to(wide) - e.to(wide)).abs()
    distances[distances.isnan()] = math.inf
    distances[(c == e) | (c.isnan() & e.isnan())] = -1.0  # no difference; large integers may differ by 0.0
    found, places = distances.topk(min(_MAX_ELEMENTS, distances.numel()))
    return tuple(
        ElementPair(_index(place, eager.shape), _digits(c[place]), _digits(e[place]), _ulps(float(far), e[place]))
        for far, place in zip(found, places, strict=True)
        if far >= 0
    )


def _index(place: torch.Tensor, shape: torch.Size) -> tuple[int, ...]:
    return tuple(map(int, torch.unravel_index(place, shape)))


def _digits(element: torch.Tensor) -> str:
    """Return the element with as many digits as tell it from its neighbours."""
    value: Any = element.item()
    if not is_float(element):
        return str(value)
    digits = 1 + math.ceil(-math.log10(eps_of(element.dtype)))
    return f"{value:.{digits}g}"


def _ulps(distance: float, eager: torch.Tensor) -> float | None:
    """Return the distance in units in the last place of eager's element; None if that has no meaning.

    It has none for a number so close to zero that its digits are fewer, and in other than floating point numbers.
    """
    if not eager.is_floating_point() or not math.isfinite(distance):
        return None
    limits, size = torch.finfo(eager.dtype), abs(float(eager))
    if size < limits.smallest_normal:
        return None
    _, exponent = math.frexp(size)
    return distance / math.ldexp(float(limits.eps), exponent - 1)


# By how many eps inputs are moved, and what memory holds that nothing writes: once, and twice more if few elements
# decide. Eager's own unwritten memory may be NaN as well.
_VARIATIONS = ((1.0, math.nan), (4.0, 1.0), (4.0, math.nan))
_MAX_REDRAWS = 9  # eager runs with other random numbers

Pairs = Mapping[Key, TensorPair]


@dataclass(frozen=True)
class Judgements:
    """The judgement of each pair.

    loose: outputs whose shape varies between runs of eager.
    excused: differences of pairs that are right only because eager itself varies.
    by_draws: pairs of other random numbers than eager's, of which only the spread was judged.
    """

    judgements: dict[Key, Judgement]
    loose: set[str]
    excused: tuple[Difference, ...]
    by_draws: frozenset[Key]


def judge_all(
    runs: EagerRuns, pairs: Pairs, shapes: Sequence[Difference], *, same_draws: bool, strict: bool
) -> Judgements:
    """Judge each pair, and the outputs with a difference in `shapes`.

    same_draws: the backend drew eager's random numbers.
    strict: eager's variation by rounding does not excuse a difference in values.
    """
    return _Judging(runs, pairs).judge(shapes, same_draws, strict)


class _Judging:
    def __init__(self, runs: EagerRuns, pairs: Pairs) -> None:
        self.runs, self.pairs = runs, pairs
        self._observed: Results | None = None
        self._disturbed: frozenset[Key] | None = None

    def judge(self, shapes: Sequence[Difference], same_draws: bool, strict: bool) -> Judgements:
        runs, pairs = self.runs, self.pairs
        references = self._references()
        judgements = {key: _judge(pair, references[key], []) for key, pair in pairs.items()}
        suspects = {
            key
            for key, judgement in judgements.items()
            if judgement.wrong or is_visible(pairs[key].compiled, pairs[key].eager)
        }
        by_draws: set[Key] = set()
        if runs.drew and not same_draws and any(j.wrong for j in judgements.values()):
            by_draws = self._judge_by_draws(judgements)
        final = set(by_draws)
        if strict:
            judgements |= {key: replace(judgements[key], wrong=True) for key in suspects - final}
            final |= suspects
        samples: dict[Key, list[Sample]] = {key: [] for key in pairs}
        loose: set[str] = set()
        for n, (steps, unwritten) in enumerate(_VARIATIONS):
            wrong = [key for key, j in judgements.items() if j.wrong and key not in final]
            open_shapes = [d for d in shapes if d.where not in loose]
            if not (wrong or open_shapes) or (n and not open_shapes and not any(judgements[k].few for k in wrong)):
                break
            # Other random numbers may make another shape.
            redraw = runs.drew and not wrong
            results = runs.redrawn(n + 1) if redraw else runs.variation(steps, unwritten)
            if results is None:
                continue
            loose |= {d.where for d in open_shapes if _shape_moved(d, results)}
            values = self._undisturbed(wrong, results, steps)
            for key in wrong:
                value = values[key]
                if value is None:
                    final.add(key)  # eager's own shape varies
                    judgements[key] = Judgement(judgements[key].error, judgements[key].eager_error, None, wrong=False)
                    continue
                samples[key].append(Sample(value, steps))
                judgements[key] = _judge(pairs[key], references[key], samples[key])
        right = [key for key in pairs if key in suspects - final and not judgements[key].wrong]
        steps, unwritten = _VARIATIONS[0]
        unmoved = [key for key in right if not samples[key]]  # one sample each, which their judgement did not need
        results = runs.variation(steps, unwritten) if unmoved else None
        for key, value in self._undisturbed(unmoved, results, steps).items() if results is not None else ():
            samples[key] += [Sample(value, steps)] if value is not None else []
        differences = (excused_difference(pairs[key], judgements[key], samples[key]) for key in right)
        return Judgements(judgements, loose, tuple(filter(None, differences)), frozenset(by_draws))

    def _references(self) -> dict[Key, torch.Tensor | None]:
        """Return the tensors in double precision, or None where unavailable."""
        pairs = self.pairs
        if not any(is_float(pair.eager) for pair in pairs.values()):
            return dict.fromkeys(pairs)
        without: Collection[Key] = self._changed_by_modes() if self.runs.drew else ()  # draws are given in a mode
        reference = self.runs.reference()
        return {key: None if key in without else value_of(reference, key, pair) for key, pair in pairs.items()}

    def _changed_by_modes(self) -> frozenset[Key]:
        """Return the tensors that eager computes otherwise under any dispatch mode.

        A tensor that also varies between two runs without a mode does not count.
        """
        if self._disturbed is None:
            self._observed = self.runs.observed()
            changed = [key for key in self.pairs if not self._is_as_first(self._observed, key)]
            again = self.runs.again() if changed else None
            self._disturbed = frozenset(key for key in changed if self._is_as_first(again, key))
        return self._disturbed

    def _is_as_first(self, results: Results | None, key: Key) -> bool:
        value = value_of(results, key, self.pairs[key])
        return value is not None and are_identical(value, self.pairs[key].eager)

    def _undisturbed(self, keys: Collection[Key], varied: Results, steps: float) -> dict[Key, torch.Tensor | None]:
        """Return the tensors of a varied run of eager. A tensor that the dispatch mode of that run changes by itself is
        taken from a run without the mode, in which the inputs alone are moved.

        Unwritten memory that is NaN in the varied run is NaN in the other one as well.
        """
        values = {key: value_of(varied, key, self.pairs[key]) for key in keys}
        changed = self._changed_by_modes().intersection(keys)
        moved = self.runs.moved(steps) if changed else None
        for key in changed:
            value, under_mode = value_of(moved, key, self.pairs[key]), values[key]
            observed = value_of(self._observed, key, self.pairs[key])
            if value is not None and under_mode is not None and observed is not None and is_float(value):
                value = torch.where(under_mode.isnan() & ~observed.isnan(), under_mode, value)
            values[key] = value
        return values

    def _judge_by_draws(self, judgements: dict[Key, Judgement]) -> set[Key]:
        """Judge the tensors that depend on random numbers, if the backend draws other numbers. Return their keys."""
        runs = [self.runs.redrawn(1)]
        near = [_is_near(pair, value_of(runs[0], key, pair)) for key, pair in self.pairs.items()]
        if True in near and False not in near:
            return set()
        judged_keys: set[Key] = set()
        for key in [key for key, judgement in judgements.items() if judgement.wrong]:
            pair = self.pairs[key]
            values: list[torch.Tensor] = []
            for n in range(_MAX_REDRAWS):
                if n == len(runs):
                    runs.append(self.runs.redrawn(1 + n))
                value = value_of(runs[n], key, pair)
                if value is not None and (values or depends_on_draws(pair.eager, value)):
                    values.append(value)
                    judgements[key] = judge_draws(pair.compiled, pair.eager, values)
                    judged_keys.add(key)
                if not judgements[key].wrong:
                    break
        return judged_keys


def _is_near(pair: TensorPair, redrawn: torch.Tensor | None) -> bool | None:
    if redrawn is None or not depends_on_draws(pair.eager, redrawn):
        return None
    return is_near(pair.compiled, pair.eager, redrawn)


def _shape_moved(difference: Difference, results: Results) -> bool:
    """Whether this run of eager has another shape than the sentence reports for eager."""
    i = int(difference.where.removeprefix("output "))
    value = results.outputs[i] if i < len(results.outputs) else None
    shape = ", ".join(map(str, value.shape)) if isinstance(value, torch.Tensor) else ""
    return not difference.sentence.endswith(f"in eager ({shape})")


def _judge(pair: TensorPair, reference: torch.Tensor | None, samples: list[Sample]) -> Judgement:
    judge = judge_floats if is_float(pair.eager) else judge_exact
    return judge(pair.compiled, pair.eager, reference, samples)
