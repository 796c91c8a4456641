"""Compare a compiled callable with eager: the differences, and how large they are."""

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
from minifier.compare.predicate import predicate_sentence
from minifier.compare.results import Results, drew_the_same, is_float, observe, random_state_kept
from minifier.compare.runs import Build, EagerRuns
from minifier.failure import Aspect, Difference, Stage, Tolerance

Key = tuple[str, int]  # ("output" | "input" | "gradient", position)

_INPUT_STEPS_EPS = (1.0, 4.0, 4.0)  # by how much inputs are moved: once, and twice more if few elements decide
_MAX_REDRAWS = 4  # eager runs with other random numbers


@dataclass(frozen=True)
class Comparison:
    """Differences between compiled and eager results.

    `compiled_error` was raised by the compiled callable alone, in `compiled_stage`. `eager_error` was raised by eager;
    if the compiled callable raised nothing, this is a difference.
    """

    differences: tuple[Difference, ...] = ()
    compiled_error: BaseException | None = None
    compiled_stage: Stage = Stage.RUN
    eager_error: BaseException | None = None


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
    """Call `compiled` once and eager as often as needed, each time with fresh inputs.

    Eager usually runs twice, once in double precision. If the compiled result looks wrong, a third run gets inputs
    moved by a rounding error. A verdict on few elements or on random numbers needs more runs. All of them use the
    caller's grad mode and autocast. The random number generators are restored.

    `names` are the inputs' names. `before_backward` is called between the compiled call and its backward pass; both
    run in the context that `around` makes. `inputs_of_compiled` replaces `make_inputs` for the compiled call. Raises
    UsageError if the predicate fails.
    """
    with random_state_kept():
        runs = EagerRuns(graph, make_inputs, build, backward)
        eager = runs.first()
        results = observe(
            compiled,
            (inputs_of_compiled or make_inputs)(),
            backward=backward,
            tangents=runs.tangents,
            before_backward=before_backward,
            within=around,
        )
        return _ComparisonRun(runs, measure or Tolerance(), names).compare(results, eager)


class _ComparisonRun:
    def __init__(self, runs: EagerRuns, measure: Tolerance, names: Sequence[str]) -> None:
        self.runs, self.measure, self.names = runs, measure, names
        self.same_draws = False

    def compare(self, compiled: Results, eager: Results) -> Comparison:
        if eager.error is not None or compiled.error is not None:
            return self._with_errors(compiled, eager)
        if self.measure.predicate:
            sentence = predicate_sentence(self.measure.predicate, compiled.outputs, eager.outputs)
            return Comparison((Difference(Aspect.PREDICATE, "the outputs", sentence),) if sentence else ())
        differences = form_differences(compiled, eager, self.names)
        pairs = self._pairs(compiled, eager)
        self.same_draws = bool(pairs) and self.runs.drew and compiled.drew and drew_the_same(compiled, eager)
        del compiled, eager
        if self.measure.rtol is not None and self.measure.atol is not None:
            within = self.measure.rtol, self.measure.atol
            judgements = {key: judge_within(pair.compiled, pair.eager, *within) for key, pair in pairs.items()}
        else:
            shapes = [d for d in differences if d.aspect is Aspect.SHAPE]
            judgements, loose = self._judge_all(pairs, shapes)
            differences = [d for d in differences if d.aspect is not Aspect.SHAPE or d.where not in loose]
        differences += [_difference(pairs[key], judgement) for key, judgement in judgements.items() if judgement.wrong]
        return Comparison(self._not_ignored(differences))

    def _not_ignored(self, differences: Sequence[Difference]) -> tuple[Difference, ...]:
        return tuple(d for d in differences if d.aspect not in self.measure.ignored)

    def _with_errors(self, compiled: Results, eager: Results) -> Comparison:
        differences = []
        out_of_memory = isinstance(eager.error, (MemoryError, torch.OutOfMemoryError))
        if eager.error is not None and compiled.error is None and not out_of_memory:
            where = "the backward pass" if eager.stage is Stage.BACKWARD_RUN else "the call"
            first_line = (str(eager.error).strip().splitlines() or [""])[0]
            sentence = f"eager raises {type(eager.error).__name__}: {first_line}; the compiled result does not"
            differences.append(Difference(Aspect.NO_EXCEPTION, where, sentence))
        return Comparison(
            self._not_ignored(differences),
            compiled_error=compiled.error if eager.error is None else None,
            compiled_stage=compiled.stage,
            eager_error=eager.error,
        )

    def _pairs(self, compiled: Results, eager: Results) -> dict[Key, _TensorPair]:
        """Return the tensors to judge by their values: same shape, but not bit for bit equal."""
        pairs: dict[Key, _TensorPair] = {}
        groups: tuple[tuple[str, Aspect, list[Any], list[Any]], ...] = (
            ("output", Aspect.VALUES, compiled.outputs, eager.outputs),
            ("input", Aspect.MUTATION, compiled.inputs, eager.inputs),
            ("gradient", Aspect.GRADIENT, compiled.gradients, eager.gradients),
        )
        for group, aspect, compiled_values, eager_values in groups:
            if {aspect, Aspect.NON_FINITE} <= set(self.measure.ignored):
                continue
            for i, (c, e) in enumerate(zip(compiled_values, eager_values, strict=False)):
                if group == "gradient":
                    c = torch.zeros_like(e) if c is None and e is not None else c  # noqa: PLW2901
                    e = torch.zeros_like(c) if e is None and c is not None else e  # noqa: PLW2901
                if not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
                    continue
                if c.shape != e.shape or c.device != e.device or not e.numel():
                    continue
                if c.dtype != e.dtype or not _identical(c, e):
                    where = f"output {i}" if group == "output" else _where(group, self.names[i])
                    pairs[group, i] = _TensorPair(where, aspect, _dense(c), _dense(e))
        return pairs

    def _judge_all(
        self, pairs: dict[Key, _TensorPair], shapes: list[Difference]
    ) -> tuple[dict[Key, Judgement], set[str]]:
        """Judge each pair. Also return the outputs whose shape varies between runs of eager."""
        reference = self.runs.reference() if any(is_float(p.eager) for p in pairs.values()) else None
        references = {key: _value(reference, key, pair) for key, pair in pairs.items()}
        del reference
        judgements = {key: _judge(pair, references[key], []) for key, pair in pairs.items()}
        final: set[Key] = set()
        if self.runs.drew and not self.same_draws and any(j.wrong for j in judgements.values()):
            final = self._judge_by_draws(pairs, judgements)
        samples: dict[Key, list[Sample]] = {key: [] for key in pairs}
        loose: set[str] = set()
        for n, steps in enumerate(_INPUT_STEPS_EPS):
            wrong = [key for key, j in judgements.items() if j.wrong and key not in final]
            open_shapes = [d for d in shapes if d.where not in loose]
            if not (wrong or open_shapes) or (n and not open_shapes and not any(judgements[k].few for k in wrong)):
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
                    final.add(key)  # eager's own shape varies
                    judgements[key] = Judgement(judgements[key].error, judgements[key].eager_error, None, wrong=False)
                    continue
                samples[key].append(Sample(value, steps))
                judgements[key] = _judge(pairs[key], references[key], samples[key])
        return judgements, loose

    def _judge_by_draws(self, pairs: dict[Key, _TensorPair], judgements: dict[Key, Judgement]) -> set[Key]:
        """Judge the tensors that depend on random numbers, if the backend draws other ones. Return their keys."""
        runs = [self.runs.redrawn(1)]
        near = [_is_near(pair, _value(runs[0], key, pair)) for key, pair in pairs.items()]
        if True in near and False not in near:
            return set()
        judged_keys: set[Key] = set()
        for key in [key for key, judgement in judgements.items() if judgement.wrong]:
            pair = pairs[key]
            values: list[torch.Tensor] = []
            for n in range(_MAX_REDRAWS):
                if n == len(runs):
                    runs.append(self.runs.redrawn(1 + n))
                value = _value(runs[n], key, pair)
                if value is not None and (values or depends_on_draws(pair.eager, value)):
                    values.append(value)
                    judgements[key] = judge_draws(pair.compiled, pair.eager, values)
                    judged_keys.add(key)
                if not judgements[key].wrong:
                    break
        return judged_keys


def _is_near(pair: _TensorPair, redrawn: torch.Tensor | None) -> bool | None:
    if redrawn is None or not depends_on_draws(pair.eager, redrawn):
        return None
    return is_near(pair.compiled, pair.eager, redrawn)


def _where(group: str, name: str) -> str:
    return f"input {name} after the call" if group == "input" else f"gradient of {name}"


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _identical(c: torch.Tensor, e: torch.Tensor) -> bool:
    c, e = _dense(c), _dense(e)
    same = (c == e) | (c.isnan() & e.isnan()) if is_float(e) else c == e
    return bool(same.all())


def _value(results: Results | None, key: Key, pair: _TensorPair) -> torch.Tensor | None:
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
    return _dense(value)


def _shape_moved(difference: Difference, results: Results) -> bool:
    """Whether this run of eager has another shape than the sentence reports for eager."""
    i = int(difference.where.removeprefix("output "))
    value = results.outputs[i] if i < len(results.outputs) else None
    shape = ", ".join(map(str, value.shape)) if isinstance(value, torch.Tensor) else ""
    return not difference.sentence.endswith(f"in eager ({shape})")


def _judge(pair: _TensorPair, reference: torch.Tensor | None, samples: list[Sample]) -> Judgement:
    judge = judge_floats if is_float(pair.eager) else judge_exact
    return judge(pair.compiled, pair.eager, reference, samples)


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
