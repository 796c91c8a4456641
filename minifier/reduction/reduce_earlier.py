"""Simplifies the earlier calls of other graphs than the failing one that the search of the ops has left."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from minifier import search
from minifier.data.case import Call, Case, Drawn, TensorInput
from minifier.data.case.calls import call_of, with_others
from minifier.data.case.store import unpickled
from minifier.data.case.values import contiguous_stride
from minifier.data.failure import Verdict
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.passes.edits import with_tensors
from minifier.reduction.passes.sizes import to_number
from minifier.reduction.passes.table import OF_VALUES
from minifier.reduction.probe.evaluate import runs
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.simplify import Simplifier

_MIN_NEW_SIZE = 2
_PHASE = "ahead"


@dataclass
class EarlierCallsReducer:
    """Simplifies the calls of other graphs; `case` is the simplest Case so far that shows the failure."""

    runner: ProbeRunner
    case: Case
    budget: search.Budget

    def simplify(self) -> None:
        """Replace each call by one call of the Case's own graph, if that suffices; else reduce the call's graph."""
        self.runner.phase, self.runner.pass_name = _PHASE, ""
        if not self.case.others or self._take([None] * len(self.case.others)):
            return
        before = self.case.others
        once = [replace(call, times=1) for call in before]
        self._replace_calls([[*self._of_own_graph(number), call] for number, call in enumerate(once)])
        for place, call in enumerate(self.case.others):
            if call in (before[place], once[place]):
                self._reduce_graph(place)

    def _replace_calls(self, alternatives: Sequence[Sequence[Call]]) -> None:
        """Replace all calls by their first alternatives, or else each call by the first that keeps the failure."""
        pairs = zip(self.case.others, alternatives, strict=True)
        if self._take([next(iter(options), call) for call, options in pairs]):
            return
        for place, options in enumerate(alternatives):
            any(self._take(self._with_call(place, option)) for option in options)

    def _with_call(self, place: int, call: Call) -> list[Call]:
        return [*self.case.others[:place], call, *self.case.others[place + 1 :]]

    def _take(self, others: Sequence[Call | None]) -> bool:
        candidate = with_others(self.case, others)
        if candidate == self.case or self.budget.after(self.runner.total).max_probes == 0:
            return False
        (judged,) = self.runner.probe([candidate])
        if judged.verdict is Verdict.SAME:
            self.case = candidate
        return judged.verdict is Verdict.SAME

    def _of_own_graph(self, number: int) -> list[Call]:
        """Return calls of the Case's own graph that can replace the call `number`: with another size, and unchanged."""
        case, call = self.case, self.case.others[number]
        sizes = sorted({size for item in case.tensor_inputs for size in item.meta.shape})
        unused = (n for n in itertools.count(_MIN_NEW_SIZE) if n not in sizes)
        new = next(itertools.islice(unused, number, None))
        bare = replace(case, before=())
        edits = [to_number(size, new) for size in sizes]
        resized = [edit(bare) for each in edits for edit in each[1::2]]  # which leave the arguments of ops
        resized += [_with_leading_size(bare, new), *(edit(bare) for each in edits for edit in each[::2])]
        candidates = [case.of(call_of(each)) for each in (*resized, bare)]
        jobs = [functools.partial(runs, self.runner.prepared, each) for each in candidates]
        answers = self.runner.run(jobs)
        runnable = [
            call_of(unpickled(answer["case"], candidate), replace(call, times=1))
            for candidate, answer in zip(candidates, answers, strict=True)
            if answer is not None and answer["case"] is not None
        ]
        return [*runnable[:1], *runnable[1:][-1:]]

    def _reduce_graph(self, place: int) -> None:
        """Reduce the graph of a call like a Case's graph: each candidate is probed in the place of the call."""
        whole, call, runner = self.case, self.case.others[place], self.runner
        alone = whole.of(call)
        alone = replace(alone, failure=replace(alone.failure, hints=()))

        def put_back(candidate: Case) -> Case:
            return with_others(whole, self._with_call(place, call_of(candidate, call)))

        with runner.beside(_PHASE, alone), runner.built_by(put_back):
            reduced, _ = reduce_ops(runner, alone, self.budget)
            self.case = put_back(reduced)
            (answer,) = runner.run([lambda: runs(runner.prepared, reduced)])
            if answer is not None and answer["case"] is not None:
                simplifier = Simplifier(runner, alone, reduced, self.budget, wants=lambda name: name in OF_VALUES)
                runner.phase = "simplify"
                self.case = put_back(simplifier.run())


def _with_leading_size(case: Case, size: int) -> Case:
    def change(item: TensorInput) -> TensorInput:
        shape = (size, *item.meta.shape)
        meta = replace(item.meta, shape=shape, stride=contiguous_stride(shape), symbols=(), offset=0, storage=None)
        return replace(item, meta=meta, source=Drawn("zeros"))

    return with_tensors(case, change)
