"""After the ops: state, options, layout and values of inputs, everything plain at once first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minifier.case import Case, Recorded, Stored, TensorInput
from minifier.failure import Verdict
from minifier.passes.data import LADDER, Facts, Ladder, with_data
from minifier.passes.edits import Edit
from minifier.passes.table import SIMPLIFICATIONS
from minifier.probe.evaluate import look_at_inputs, run_eagerly
from minifier.reduction.lab import Lab


@dataclass
class Simplifier:
    """Makes a Case plainer, each step seen to keep the failure, and the graph to run eagerly."""

    lab: Lab
    whole: Case
    facts: dict[str, Facts]
    _whole_runs: bool | None = None

    def holds(self, case: Case) -> bool:
        """Whether the failure shows, and eager runs; unless the whole graph does not run in eager either."""
        if self.lab.probe([case])[0].verdict is not Verdict.SAME:
            return False
        if self._whole_runs is False or self._runs(case):
            return True
        if self._whole_runs is None:
            self._whole_runs = self._runs(self.whole)
        return not self._whole_runs

    def _runs(self, case: Case) -> bool:
        folder = self.lab.scratch / "eager"
        (eager,) = self.lab.run([lambda: run_eagerly(self.lab.bench, case.graph, case.inputs, case.state, (), folder)])
        return eager is not None and eager["status"] == "pass"

    def without_data(self, case: Case) -> Case:
        """The Case without the user's own values if the failure does not need them; all there is time for
        when the reduction was stopped."""
        plain = with_data(case, LADDER[0], self.facts)
        return plain if plain != case and self.holds(plain) else case

    def run(self, case: Case) -> Case:
        """The plainest Case found: all that nobody asked for at once if that holds, else family by family,
        edit by edit; then what the user had set."""
        unasked = [each for each in SIMPLIFICATIONS if not each.asked]
        everything = with_data(case, LADDER[0], self.facts)
        for each in unasked:
            everything = _apply(everything, each.edits(everything))
        if everything == case or self.holds(everything):
            case, unasked = everything, []
        else:
            case = self._data(case)
        for each in (*unasked, *(each for each in SIMPLIFICATIONS if each.asked)):
            edits = each.edits(case)
            together = _apply(case, edits)
            if together == case:
                continue
            if self.holds(together):
                case = together
            elif len(edits) > 1:
                for edit in edits:
                    alone = edit(case)
                    case = alone if alone != case and self.holds(alone) else case
        return case

    def _data(self, case: Case) -> Case:
        for rung in LADDER:
            plain = with_data(case, rung, self.facts)
            if plain == case or self.holds(plain):
                return plain
        for item in case.inputs:
            if isinstance(item, TensorInput):
                case = self._one(case, item, LADDER)
        return case

    def _one(self, case: Case, item: TensorInput, ladder: tuple[Ladder, ...]) -> Case:
        for rung in ladder:
            plain = with_data(case, rung, self.facts, only=item.name)
            if plain == case or self.holds(plain):
                return plain
        return case


def _apply(case: Case, edits: list[Edit]) -> Case:
    for edit in edits:
        case = edit(case)
    return case


def with_real_values(lab: Lab, whole: Case, case: Case) -> Case:
    """The Case with cut values as the whole graph computes them, where that tells more than their shape.

    A compile-time failure is searched with shapes alone; integers (indices, say) need their real range
    for the repro to be a program that runs without the backend.
    """
    cut = [i for i in case.inputs if isinstance(i, TensorInput) and not isinstance(i.source, Stored)]
    unknown = [
        i for i in cut if not isinstance(i.source, Recorded) and not i.meta.dtype.startswith(("float", "bfloat"))
    ]
    if not unknown or not whole.failure.fingerprint.stage.compiles:
        return case
    folder = lab.scratch / "cut"
    folder.mkdir(exist_ok=True)
    names = [item.name for item in unknown]
    (result,) = lab.run([lambda: run_eagerly(lab.bench, whole.graph, whole.inputs, whole.state, names, folder)])
    if result is None or result["status"] != "pass":
        return case
    lab.bench.record(folder)
    inputs = tuple(replace(i, source=Recorded(i.name)) if i in unknown else i for i in case.inputs)
    return replace(case, inputs=inputs)


def input_facts(lab: Lab, case: Case) -> dict[str, Facts]:
    """Bounds and small values of the inputs, looked at in a child; nothing where that failed."""
    plain = [i for i in case.inputs if isinstance(i, TensorInput) and not isinstance(i.source, (Stored, Recorded))]
    if len(plain) == len(case.inputs):
        return {}
    (result,) = lab.run([lambda: look_at_inputs(lab.bench, case.inputs)])
    found: dict[str, Any] = result["facts"] if result is not None else {}
    drawn = {item.name for item in plain}
    return {
        name: Facts(low, high, None if values is None else tuple(values))
        for name, (low, high, values) in found.items()
        if name not in drawn
    }
