"""Compare a compiled callable with eager, exactly and by values: the differences, and how large they are."""

from __future__ import annotations

import linecache
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.data.case.graph import Graph
from minifier.data.failure import Aspect, Difference, Stage, Tolerance
from minifier.errors import UsageError
from minifier.torch_side.compare.judge_results import Pairs, difference_of, differing_pairs, judge_all, value_of
from minifier.torch_side.compare.judge_tensor import judge_within
from minifier.torch_side.compare.results import (
    BackwardPass,
    Results,
    are_identical,
    drew_the_same,
    observe,
    random_state_kept,
)
from minifier.torch_side.compare.runs import Build, EagerRuns

_NAME = "<predicate file>"  # in tracebacks


@dataclass(frozen=True)
class Agreement:
    """A right result's largest error, and the largest that would be right.

    Both are distances from double precision, or from eager where that is not possible.
    """

    where: str
    error: float
    limit: float

    @property
    def share(self) -> float:
        """How much of the limit the error takes."""
        return self.error / self.limit


@dataclass(frozen=True)
class Comparison:
    """Differences between compiled and eager results.

    `excused` are large differences that do not count, because eager itself varies as much. `furthest` is the right
    result that comes closest to its limit. `by_draws` names the right results of other random numbers than eager's, of
    which only the spread was judged.

    `compiled_error` was raised by the compiled callable alone, in `compiled_stage`. `eager_error` was raised by eager;
    if the compiled callable raised nothing, this is a difference.
    """

    differences: tuple[Difference, ...] = ()
    excused: tuple[Difference, ...] = ()
    furthest: Agreement | None = None
    by_draws: tuple[str, ...] = ()
    compiled_error: BaseException | None = None
    compiled_stage: Stage = Stage.RUN
    eager_error: BaseException | None = None


def compare(
    compiled: Callable[..., Any],
    graph: Graph,
    make_inputs: Callable[[], list[Any]],
    build: Build,
    measure: Tolerance | None = None,
    *,
    backward: BackwardPass | None = None,
) -> Comparison:
    """Call `compiled` once and eager as often as needed, each time with fresh inputs.

    Eager usually runs twice, once in double precision. If the compiled result looks wrong, further runs get inputs
    moved by a rounding error. A verdict on few elements or on random numbers needs more runs. All of them use the
    caller's grad mode and autocast. The random number generators are restored.

    With `backward`, compare the gradients too; all calls get the tangents of eager's first. Raises UsageError if the
    predicate fails.
    """
    with random_state_kept():
        runs = EagerRuns(graph, make_inputs, build, backward is not None)
        eager = runs.first()
        gradients = replace(backward, tangents=runs.tangents) if backward is not None else None
        results = observe(compiled, make_inputs(), backward=gradients)

        def again() -> Results:
            return observe(compiled, make_inputs(), seed=1)

        return compare_results(results, eager, runs, measure or Tolerance(), again)


def compare_results(
    compiled: Results, eager: Results, runs: EagerRuns, measure: Tolerance, again: Callable[[], Results]
) -> Comparison:
    """Compare the results of a compiled call with eager's first run. `again` makes the compiled call from another seed.

    Random numbers excuse differences, unless the compiled call draws eager's numbers, or none at all.
    """
    return _ComparisonRun(runs, measure, again).compare(compiled, eager)


class _ComparisonRun:
    def __init__(self, runs: EagerRuns, measure: Tolerance, again: Callable[[], Results]) -> None:
        self.runs, self.measure, self.names, self.again = runs, measure, runs.names, again

    def compare(self, compiled: Results, eager: Results) -> Comparison:
        if eager.error is not None or compiled.error is not None:
            return self._with_errors(compiled, eager)
        if self.measure.predicate:
            sentence = predicate_sentence(self.measure.predicate, compiled.outputs, eager.outputs)
            return Comparison((Difference(Aspect.PREDICATE, "the outputs", sentence),) if sentence else ())
        differences = form_differences(compiled, eager, self.names)
        pairs = differing_pairs(compiled, eager, self.names, self.measure.ignored)
        same_draws = False
        if pairs and self.runs.drew:
            same_draws = drew_the_same(compiled, eager, self.runs.start) if compiled.drew else self._is_steady(pairs)
        excused: tuple[Difference, ...] = ()
        by_draws: tuple[str, ...] = ()
        if self.measure.rtol is not None and self.measure.atol is not None:
            within = self.measure.rtol, self.measure.atol
            judgements = {key: judge_within(pair.compiled, pair.eager, *within) for key, pair in pairs.items()}
        else:
            shapes = [d for d in differences if d.aspect is Aspect.SHAPE]
            judged = judge_all(self.runs, pairs, shapes, same_draws=same_draws, strict=self.measure.strict)
            judgements, excused = judged.judgements, self._not_ignored(judged.excused)
            by_draws = tuple(pairs[key].where for key in pairs if key in judged.by_draws and not judgements[key].wrong)
            differences = [d for d in differences if d.aspect is not Aspect.SHAPE or d.where not in judged.loose]
        differences += [
            difference_of(pairs[key], judgement) for key, judgement in judgements.items() if judgement.wrong
        ]
        right = [
            Agreement(pairs[key].where, judgement.error, judgement.limit)
            for key, judgement in judgements.items()
            if judgement.limit and not judgement.wrong
        ]
        furthest = max(right, key=lambda agreement: agreement.share, default=None)
        return Comparison(self._not_ignored(differences), excused, furthest, by_draws)

    def _is_steady(self, pairs: Pairs) -> bool:
        """Whether the compiled call gives the same values again: it draws no numbers from elsewhere either."""
        results = self.again()
        seen = [(pair.compiled, value_of(results, key, pair)) for key, pair in pairs.items() if key[0] != "gradient"]
        return bool(seen) and all(value is not None and are_identical(value, before) for before, value in seen)

    def _not_ignored(self, differences: Sequence[Difference]) -> tuple[Difference, ...]:
        return tuple(d for d in differences if d.aspect not in self.measure.ignored)

    def _with_errors(self, compiled: Results, eager: Results) -> Comparison:
        differences = []
        out_of_memory = isinstance(eager.error, (MemoryError, torch.OutOfMemoryError))
        if eager.error is not None and compiled.error is None and not out_of_memory:
            where = "the backward pass" if eager.stage is Stage.BACKWARD_RUN else "the call"
            first_line = (str(eager.error).strip().splitlines() or [""])[0]
            exception = f"{type(eager.error).__name__}: {first_line}"
            sentence = f"eager raises {exception}; the compiled function does not"
            differences.append(Difference(Aspect.NO_EXCEPTION, where, sentence, exception=exception))
        return Comparison(
            self._not_ignored(differences),
            compiled_error=compiled.error if eager.error is None else None,
            compiled_stage=compiled.stage,
            eager_error=eager.error,
        )


def _read_predicate(text: str) -> Callable[[list[Any], list[Any]], bool | str]:
    """Return the text's function `differs(compiled, eager)`. Raises UsageError if the text fails or lacks it."""
    scope: dict[str, Any] = {"__name__": "minify_predicate", "__file__": _NAME}
    linecache.cache[_NAME] = (len(text), None, text.splitlines(keepends=True), _NAME)
    try:
        exec(compile(text, _NAME, "exec"), scope)  # the user's own file, named on the command line
    except SyntaxError as error:
        raise UsageError(f"the predicate file is not Python: {error.msg} (line {error.lineno})") from None
    except Exception as error:
        raise UsageError(f"the predicate file fails when it is run: {type(error).__name__}: {error}") from error
    function = scope.get("differs")
    if not callable(function):
        raise UsageError(
            "the predicate file does not define differs(compiled, eager), which is given two lists of outputs "
            "and returns whether they differ, or a sentence that says how"
        )
    return function  # type: ignore[no-any-return]


def predicate_sentence(text: str, compiled: list[Any], eager: list[Any]) -> str:
    """Return the predicate's sentence, empty if the outputs do not differ. Raises UsageError if the predicate fails."""
    function = _read_predicate(text)
    try:
        answer = function(compiled, eager)
    except Exception as error:
        steps = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in steps if frame.f_code.co_filename == _NAME]
        where = f" (line {lines[-1]} of the predicate file)" if lines else ""
        raise UsageError(
            f"differs(compiled, eager) raises {type(error).__name__}: {error}{where}; it must return a bool or a str"
        ) from error
    if isinstance(answer, str):
        return answer
    if isinstance(answer, (bool, int)) or answer is None or hasattr(answer, "__bool__"):
        return "the predicate says that the outputs differ" if answer else ""
    raise UsageError(f"differs(compiled, eager) returned a {type(answer).__name__}, not a bool or a str")


def _strides(tensor: torch.Tensor) -> list[int]:
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _in_parentheses(values: Sequence[Any]) -> str:
    return f"({', '.join(map(str, values))})"


def _leaf(where: str, c: Any, e: Any) -> Iterator[Difference]:
    if not isinstance(c, torch.Tensor) or not isinstance(e, torch.Tensor):
        if isinstance(c, torch.Tensor) or isinstance(e, torch.Tensor) or (c is None) != (e is None):
            types = [type(value).__name__ for value in (c, e)]
            yield Difference(Aspect.STRUCTURE, where, f"{where} is a {types[0]}, in eager a {types[1]}")
        elif isinstance(c, float) and isinstance(e, float):
            if not (math.isclose(c, e, rel_tol=1e-5, abs_tol=1e-12) or (math.isnan(c) and math.isnan(e))):
                yield Difference(Aspect.VALUES, where, f"{where} is {c!r}, in eager {e!r}", error=abs(c - e))
        elif isinstance(c, (int, float, str)) and c != e:
            yield Difference(Aspect.VALUES, where, f"{where} is {c!r}, in eager {e!r}")
        return
    if c.shape != e.shape:
        sentence = f"{where} has the shape {_in_parentheses(c.shape)}, in eager {_in_parentheses(e.shape)}"
        yield Difference(Aspect.SHAPE, where, sentence)
    if c.dtype != e.dtype:
        dtypes = [str(t.dtype).removeprefix("torch.") for t in (c, e)]
        yield Difference(Aspect.DTYPE, where, f"{where} is of type {dtypes[0]}, in eager of {dtypes[1]}")
    if c.device != e.device:
        yield Difference(Aspect.DEVICE, where, f"{where} is on {c.device}, in eager on {e.device}")
    if c.layout != e.layout:
        yield Difference(Aspect.STRIDE, where, f"{where} is {c.layout}, in eager {e.layout}")
    elif c.shape == e.shape and c.layout == torch.strided and c.numel() and _strides(c) != _strides(e):
        sentence = f"{where} has the strides {_in_parentheses(c.stride())}, in eager {_in_parentheses(e.stride())}"
        yield Difference(Aspect.STRIDE, where, sentence)


def _autograd(requires_grad: bool, is_leaf: bool) -> str:
    if not requires_grad:
        return "does not require grad"
    return "is a leaf that requires grad" if is_leaf else "requires grad and has a grad_fn"


def _aliases(c: Results, e: Results, names: Sequence[str]) -> Iterator[Difference]:
    for i, (c_inputs, e_inputs) in enumerate(zip(c.from_inputs, e.from_inputs, strict=True)):
        where = f"output {i}"
        if c_inputs != e_inputs:
            missed, extra = (sorted(names[j] for j in group) for group in (e_inputs - c_inputs, c_inputs - e_inputs))
            clauses = [f"does not share memory with the input {name}, in eager it does" for name in missed]
            clauses += [f"shares memory with the input {name}, in eager it does not" for name in extra]
            yield Difference(Aspect.ALIASING, where, f"{where} {'; '.join(clauses)}")
            continue
        partner = next((j for j in range(i) if c.together[j] == c.together[i]), None)
        if partner is not None and e.together[partner] != e.together[i]:
            sentence = f"{where} shares memory with output {partner}, in eager it does not"
            yield Difference(Aspect.ALIASING, where, sentence)


def _nesting(results: Results) -> str:
    """Return the nesting in words: a tensor, a tuple of one, results nested as ((*, *), *)."""
    form, count = results.structure, len(results.outputs)
    if form == "*":
        return f"a {type(results.outputs[0]).__name__}".replace("a Tensor", "a tensor")
    if form == f"({', '.join('*' * count)})":
        return f"a tuple of {'one' if count == 1 else count}"
    return f"results nested as {form}"


def form_differences(compiled: Results, eager: Results, names: Sequence[str]) -> list[Difference]:
    """Return all differences except in the values of elements. `names` are the inputs' names."""
    ours, theirs = len(compiled.outputs), len(eager.outputs)
    if ours != theirs:
        sentence = f"there are {ours} outputs, in eager {theirs}"
        return [Difference(Aspect.STRUCTURE, "the outputs", sentence)]
    differences = []
    if compiled.structure != eager.structure:
        sentence = f"the backend returned {_nesting(compiled)}, eager {_nesting(eager)}"
        differences.append(Difference(Aspect.STRUCTURE, "the outputs", sentence))
    for i, (c, e) in enumerate(zip(compiled.outputs, eager.outputs, strict=True)):
        differences += _leaf(f"output {i}", c, e)
    differences += _aliases(compiled, eager, names)
    for i, (c_state, e_state) in enumerate(zip(compiled.autograd, eager.autograd, strict=True)):
        if c_state is not None and e_state is not None and c_state != e_state:
            sentence = f"output {i} {_autograd(*c_state)}, in eager it {_autograd(*e_state)}"
            differences.append(Difference(Aspect.AUTOGRAD, f"output {i}", sentence))
    for name, c, e in zip(names, compiled.inputs, eager.inputs, strict=True):
        if isinstance(c, torch.Tensor) and isinstance(e, torch.Tensor) and (c.shape, c.dtype) != (e.shape, e.dtype):
            where = f"input {name} after the call"
            in_eager = f"{e.dtype} of {_in_parentheses(e.shape)}"
            sentence = f"{where} is {c.dtype} of shape {_in_parentheses(c.shape)}, in eager {in_eager}"
            differences.append(Difference(Aspect.MUTATION, where, sentence))
    return differences
