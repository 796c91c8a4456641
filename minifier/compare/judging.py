"""Judge all differing tensors of a comparison, with as few runs of eager as the verdicts need."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from minifier.compare.judge import (
    Judgement,
    Sample,
    depends_on_draws,
    is_near,
    is_visible,
    judge_draws,
    judge_exact,
    judge_floats,
)
from minifier.compare.pairs import Key, TensorPair, are_identical, excused_difference, value_of
from minifier.compare.results import Results, is_float
from minifier.compare.runs import EagerRuns
from minifier.failure import Difference

# By how many eps inputs are moved, and what memory holds that nothing writes: once, and twice more if few elements
# decide. Eager's own unwritten memory may be NaN as well.
_VARIATIONS = ((1.0, math.nan), (4.0, 1.0), (4.0, math.nan))
_MAX_REDRAWS = 9  # eager runs with other random numbers

Pairs = Mapping[Key, TensorPair]


@dataclass(frozen=True)
class Judgements:
    """The judgement of each pair.

    loose: outputs whose shape varies between runs of eager.
    excused: differences of pairs that are right only because eager varies as much.
    """

    judgements: dict[Key, Judgement]
    loose: set[str]
    excused: tuple[Difference, ...]


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
        final: set[Key] = set()
        if runs.drew and not same_draws and any(j.wrong for j in judgements.values()):
            final = self._judge_by_draws(judgements)
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
        excused = [key for key in pairs if key in suspects - final and not judgements[key].wrong]
        return Judgements(judgements, loose, self._excused(excused, judgements, samples))

    def _excused(
        self, keys: Sequence[Key], judgements: Mapping[Key, Judgement], samples: Mapping[Key, list[Sample]]
    ) -> tuple[Difference, ...]:
        """Describe what is excused, with further samples where the judgements needed none.

        Where eager and its samples are all NaN, one more sample tells whether anything has written that memory.
        """
        for n, (steps, unwritten) in enumerate(_VARIATIONS[:2]):
            unmoved = [key for key in keys if len(samples[key]) == n and (n == 0 or self._is_nan_in_all(key, samples))]
            results = self.runs.variation(steps, unwritten) if unmoved else None
            values = self._undisturbed(unmoved, results, steps) if results is not None else {}
            for key, value in values.items():
                samples[key].extend([Sample(value, steps)] if value is not None else [])
        differences = [excused_difference(self.pairs[key], judgements[key], samples[key]) for key in keys]
        return tuple(difference for difference in differences if difference is not None)

    def _is_nan_in_all(self, key: Key, samples: Mapping[Key, list[Sample]]) -> bool:
        """Whether any element is NaN in eager and in its samples."""
        eager = self.pairs[key].eager
        values = [eager, *(sample.value for sample in samples[key])]
        return is_float(eager) and bool(torch.stack([value.isnan() for value in values]).all(0).any())

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
        """Return the values of a variation. Where a mode alone changes a tensor, only the inputs were moved.

        Where unwritten memory is NaN, it is NaN there as well.
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
