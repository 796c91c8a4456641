"""Compare a compiled callable with eager: the differences, and how large they are."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.case.graph import Graph
from minifier.compare.form import form_differences
from minifier.compare.judge import judge_within
from minifier.compare.judging import Pairs, judge_all
from minifier.compare.pairs import are_identical, difference_of, differing_pairs, value_of
from minifier.compare.results import BackwardPass, Results, drew_the_same, observe, random_state_kept
from minifier.compare.runs import Build, EagerRuns
from minifier.errors import UsageError
from minifier.failure import Aspect, Difference, Stage, Tolerance

_NAME = "<predicate file>"  # in tracebacks


@dataclass(frozen=True)
class Comparison:
    """Differences between compiled and eager results.

    `excused` are large differences that do not count, because eager itself varies as much.

    `compiled_error` was raised by the compiled callable alone, in `compiled_stage`. `eager_error` was raised by eager;
    if the compiled callable raised nothing, this is a difference.
    """

    differences: tuple[Difference, ...] = ()
    excused: tuple[Difference, ...] = ()
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
        del compiled, eager
        excused: tuple[Difference, ...] = ()
        if self.measure.rtol is not None and self.measure.atol is not None:
            within = self.measure.rtol, self.measure.atol
            judgements = {key: judge_within(pair.compiled, pair.eager, *within) for key, pair in pairs.items()}
        else:
            shapes = [d for d in differences if d.aspect is Aspect.SHAPE]
            judged = judge_all(self.runs, pairs, shapes, same_draws=same_draws, strict=self.measure.strict)
            judgements, excused = judged.judgements, self._not_ignored(judged.excused)
            differences = [d for d in differences if d.aspect is not Aspect.SHAPE or d.where not in judged.loose]
        differences += [
            difference_of(pairs[key], judgement) for key, judgement in judgements.items() if judgement.wrong
        ]
        return Comparison(self._not_ignored(differences), excused)

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
            sentence = f"eager raises {type(eager.error).__name__}: {first_line}; the compiled function does not"
            differences.append(Difference(Aspect.NO_EXCEPTION, where, sentence))
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
        frame, line = error.__traceback__, 0
        while frame is not None:
            line = frame.tb_lineno if frame.tb_frame.f_code.co_filename == _NAME else line
            frame = frame.tb_next
        where = f" (line {line} of the predicate file)" if line else ""
        raise UsageError(
            f"differs(compiled, eager) raises {type(error).__name__}: {error}{where}; it must return a bool or a str"
        ) from error
    if isinstance(answer, str):
        return answer
    if isinstance(answer, (bool, int)) or answer is None or hasattr(answer, "__bool__"):
        return "the predicate says that the outputs differ" if answer else ""
    raise UsageError(f"differs(compiled, eager) returned a {type(answer).__name__}, not a bool or a str")
