"""A compiled callable against eager: what differs, and by how much."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minifier.case.graph import Graph
from minifier.compare.form import form_differences
from minifier.compare.judge import (
    Judgement,
    Sample,
    depends_on_draws,
    is_near,
    judge_draws,
    judge_exact,
    judge_floats,
    judge_within,
)
from minifier.compare.predicate import asked
from minifier.compare.results import Results, drew_the_same, is_float, observe, random_state_kept
from minifier.compare.runs import Build, EagerRuns
from minifier.failure import Aspect, Difference, Stage, Tolerance

Key = tuple[str, int]  # ("output" | "input" | "gradient", position)

_STEPS = (1.0, 4.0, 4.0)  # by how many eps inputs are moved: a first run, and two more before a verdict of few
_MOST_DRAWS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor that was compared, for the report: largest distances over its elements. Without numbers where
    the compiled result is bit for bit eager's."""

    where: str
    error: float | None = None
    eager_error: float | None = None
    noise: float | None = None
    wrong: bool = False

    @property
    def identical(self) -> bool:
        """Whether the two are the same, bit for bit."""
        return self.error is None


@dataclass(frozen=True)
class Comparison:
    """What parts the compiled callable from eager. `compiled_error` is what it alone raised, in
    `compiled_stage`; `eager_error` what eager raised, whether the other did as well or not (a difference then)."""

    differences: tuple[Difference, ...] = ()
    compiled_error: BaseException | None = None
    compiled_stage: Stage = Stage.RUN
    eager_error: BaseException | None = None
    rows: tuple[Row, ...] = ()
    eager_runs: int = 1


@dataclass
class _TensorPair:
    where: str
    aspect: Aspect
    compiled: torch.Tensor
    eager: torch.Tensor


def compare(
    compiled: Callable[..., Any],
    graph: Graph,
    make_inputs: Callable[[], list[Any]],
    build: Build,
    measure: Tolerance | None = None,
    *,
    backward: bool,
    names: Sequence[str],
    before_backward: Callable[[], None] | None = None,
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    inputs_of_compiled: Callable[[], list[Any]] | None = None,
) -> Comparison:
    """Calls `compiled` once and eager as often as it takes, each on inputs of its own.

    `names` are the inputs'. In most cases there are two runs of eager, one of them in double precision; a third,
    with inputs moved by a rounding error, if the compiled result looks wrong; more if it rests on few elements
    or on random numbers. Runs in the grad mode and autocast of the caller, and leaves the random number
    generators as they were. `before_backward` is called between the compiled call and its backward pass; a
    context that `around` makes is around each. `inputs_of_compiled` makes the compiled call's inputs, if others.
    Raises UsageError for a predicate that fails.
    """
    with random_state_kept():
        runs = EagerRuns(graph, make_inputs, build, backward)
        eager = runs.first()
        found = observe(
            compiled,
            (inputs_of_compiled or make_inputs)(),
            backward=backward,
            tangents=runs.tangents,
            before_backward=before_backward,
            within=around,
        )
        return _ComparisonRun(runs, measure or Tolerance(), names).compare(found, eager)


class _ComparisonRun:
    def __init__(self, runs: EagerRuns, measure: Tolerance, names: Sequence[str]) -> None:
        self.runs, self.measure, self.names = runs, measure, names
        self.rows: list[Row] = []
        self.same_draws = False

    def compare(self, found: Results, eager: Results) -> Comparison:
        if eager.error is not None or found.error is not None:
            return self._with_errors(found, eager)
        if self.measure.predicate:
            said = asked(self.measure.predicate, found.outputs, eager.outputs)
            difference = Difference(Aspect.PREDICATE, "the outputs", said)
            return Comparison((difference,) if said else (), eager_runs=self.runs.count)
        differences = form_differences(found, eager, self.names)
        pairs = self._pairs(found, eager)
        self.same_draws = bool(pairs) and self.runs.drew and found.drew and drew_the_same(found, eager)
        del found, eager
        if self.measure.rtol is not None and self.measure.atol is not None:
            within = self.measure.rtol, self.measure.atol
            judged = {key: judge_within(pair.compiled, pair.eager, *within) for key, pair in pairs.items()}
        else:
            shapes = [d for d in differences if d.aspect is Aspect.SHAPE]
            judged, loose = self._judged(pairs, shapes)
            differences = [d for d in differences if d.aspect is not Aspect.SHAPE or d.where not in loose]
        for key, judgement in judged.items():
            pair = pairs[key]
            differences += [_difference(pair, judgement)] if judgement.wrong else []
            numbers = (judgement.error, judgement.eager_error, judgement.noise)
            self.rows.append(Row(pair.where, *numbers, wrong=judgement.wrong))
        counted = tuple(d for d in differences if d.aspect not in self.measure.ignored)
        return Comparison(counted, rows=tuple(self.rows), eager_runs=self.runs.count)

    def _with_errors(self, found: Results, eager: Results) -> Comparison:
        differences = []
        running_out = isinstance(eager.error, (MemoryError, torch.OutOfMemoryError))
        if eager.error is not None and found.error is None and not running_out:
            where = "the backward pass" if eager.stage is Stage.BACKWARD_RUN else "the call"
            first = (str(eager.error).strip().splitlines() or [""])[0]
            sentence = f"eager raises {type(eager.error).__name__}: {first}; the compiled result does not"
            differences.append(Difference(Aspect.NO_EXCEPTION, where, sentence))
        return Comparison(
            tuple(d for d in differences if d.aspect not in self.measure.ignored),
            compiled_error=found.error if eager.error is None else None,
            compiled_stage=found.stage,
            eager_error=eager.error,
            eager_runs=self.runs.count,
        )

    def _pairs(self, found: Results, eager: Results) -> dict[Key, _TensorPair]:
        """What has to be judged by its values: tensors of one shape that are not the same bit for bit."""
        pairs: dict[Key, _TensorPair] = {}
        groups: tuple[tuple[str, Aspect, list[Any], list[Any]], ...] = (
            ("output", Aspect.VALUES, found.outputs, eager.outputs),
            ("input", Aspect.MUTATION, found.inputs, eager.inputs),
            ("gradient", Aspect.GRADIENT, found.gradients, eager.gradients),
        )
        for group, aspect, mine, theirs in groups:
            ignored = {aspect, Aspect.NON_FINITE} <= set(self.measure.ignored)
            for i, (c, e) in enumerate(zip(mine, theirs, strict=False)):
                where = f"output {i}" if group == "output" else _where(group, self.names[i])
                if group == "gradient":
                    c = torch.zeros_like(e) if c is None and e is not None else c  # noqa: PLW2901
                    e = torch.zeros_like(c) if e is None and c is not None else e  # noqa: PLW2901
                if ignored or not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
                    continue
                if c.shape != e.shape or c.device != e.device or not e.numel():
                    continue
                if c.dtype == e.dtype and _identical(c, e):
                    self.rows += [Row(where)] if group != "input" else []
                else:
                    pairs[group, i] = _TensorPair(where, aspect, _dense(c), _dense(e))
        return pairs

    def _judged(self, pairs: dict[Key, _TensorPair], shapes: list[Difference]) -> tuple[dict[Key, Judgement], set[str]]:
        """A judgement of each pair, and the outputs whose shape is not eager's own either."""
        reference = self.runs.reference() if any(is_float(p.eager) for p in pairs.values()) else None
        references = {key: _value(reference, key, pair) for key, pair in pairs.items()}
        del reference
        judged = {key: _judge(pair, references[key], []) for key, pair in pairs.items()}
        final: set[Key] = set()
        if self.runs.drew and not self.same_draws and any(j.wrong for j in judged.values()):
            final = self._judge_by_draws(pairs, judged)
        samples: dict[Key, list[Sample]] = {key: [] for key in pairs}
        loose: set[str] = set()
        for n, steps in enumerate(_STEPS):
            wrong = [key for key, j in judged.items() if j.wrong and key not in final]
            open_shapes = [d for d in shapes if d.where not in loose]
            if not (wrong or open_shapes) or (n and not open_shapes and not any(judged[k].few for k in wrong)):
                break
            # Other random numbers may make another shape.
            redraw = self.runs.drew and not wrong
            results = self.runs.redrawn(n + 1) if redraw else self.runs.variation(steps)
            if results is None:
                continue
            loose |= {d.where for d in open_shapes if _shape_moved(d, results)}
            for key in wrong:
                value = _value(results, key, pairs[key])
                if value is None:
                    final.add(key)  # not even eager has this shape again
                    judged[key] = Judgement(judged[key].error, judged[key].eager_error, None, wrong=False)
                    continue
                samples[key].append(Sample(value, steps))
                judged[key] = _judge(pairs[key], references[key], samples[key])
        return judged, loose

    def _judge_by_draws(self, pairs: dict[Key, _TensorPair], judged: dict[Key, Judgement]) -> set[Key]:
        """If the backend draws other random numbers than eager, judges what depends on them; gives the keys."""
        runs = [self.runs.redrawn(1)]
        near = [_is_near(pair, _value(runs[0], key, pair)) for key, pair in pairs.items()]
        if True in near and False not in near:
            return set()
        settled: set[Key] = set()
        for key in [key for key, judgement in judged.items() if judgement.wrong]:
            pair = pairs[key]
            values: list[torch.Tensor] = []
            for n in range(_MOST_DRAWS):
                if n == len(runs):
                    runs.append(self.runs.redrawn(1 + n))
                value = _value(runs[n], key, pair)
                if value is not None and (values or depends_on_draws(pair.eager, value)):
                    values.append(value)
                    judged[key] = judge_draws(pair.compiled, pair.eager, values)
                    settled.add(key)
                if not judged[key].wrong:
                    break
        return settled


def _is_near(pair: _TensorPair, other: torch.Tensor | None) -> bool | None:
    if other is None or not depends_on_draws(pair.eager, other):
        return None
    return is_near(pair.compiled, pair.eager, other)


def _where(group: str, name: str) -> str:
    return f"input {name} after the call" if group == "input" else f"gradient of {name}"


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _identical(c: torch.Tensor, e: torch.Tensor) -> bool:
    c, e = _dense(c), _dense(e)
    same = (c == e) | (c.isnan() & e.isnan()) if is_float(e) else c == e
    return bool(same.all())


def _value(results: Results | None, key: Key, pair: _TensorPair) -> torch.Tensor | None:
    """The tensor of another run that belongs to a pair; None if it has none of this shape."""
    if results is None:
        return None
    group, i = key
    held = {"output": results.outputs, "input": results.inputs, "gradient": results.gradients}[group]
    value = held[i] if i < len(held) else None
    if value is None and group == "gradient":
        return torch.zeros_like(pair.eager)
    if not isinstance(value, torch.Tensor) or value.shape != pair.eager.shape:
        return None
    return _dense(value)


def _shape_moved(difference: Difference, results: Results) -> bool:
    """Whether this run of eager has another shape than the one that the sentence calls eager's."""
    i = int(difference.where.removeprefix("output "))
    value = results.outputs[i] if i < len(results.outputs) else None
    shape = ", ".join(map(str, value.shape)) if isinstance(value, torch.Tensor) else ""
    return not difference.sentence.endswith(f"in eager ({shape})")


def _judge(pair: _TensorPair, reference: torch.Tensor | None, samples: list[Sample]) -> Judgement:
    if is_float(pair.eager):
        return judge_floats(pair.compiled, pair.eager, reference, samples)
    return judge_exact(pair.compiled, pair.eager, reference, samples)


def _difference(pair: _TensorPair, judgement: Judgement) -> Difference:
    error, own, noise = judgement.error, judgement.eager_error, judgement.noise
    if judgement.non_finite:
        count = int((pair.compiled.isfinite() != pair.eager.isfinite()).sum()) or int(
            pair.eager.isfinite().logical_not().sum()
        )
        sentence = f"{pair.where} has other NaNs or infinities than eager in {count} of {pair.eager.numel()} elements"
        return Difference(Aspect.NON_FINITE, pair.where, sentence, error, own, noise)
    if not is_float(pair.eager):
        count = int((pair.compiled != pair.eager).sum())
        sentence = f"{pair.where} differs from eager's in {count} of {pair.eager.numel()} elements"
        return Difference(pair.aspect, pair.where, sentence, error, own, noise)
    sentence = f"{pair.where} is off by {error:.2g}, eager by {own:.2g}"
    if noise is not None:
        sentence += f"; a rounding error in the inputs moves eager by {noise:.2g}"
    return Difference(pair.aspect, pair.where, sentence, error, own, noise)
