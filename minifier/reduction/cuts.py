"""Records values at the cuts of a graph."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Recorded, Stored, TensorInput
from minifier.probe.evaluate import run_eagerly
from minifier.reduction.probe_runner import ProbeRunner


def with_cut_values(runner: ProbeRunner, whole: Case, case: Case) -> Case:
    """Give cut inputs the values that the whole graph computes, unless they are floats.
    Only compile-time failures need this: their search uses shapes alone."""
    tensors = [i for i in case.inputs if isinstance(i, TensorInput) and not isinstance(i.source, (Stored, Recorded))]
    unknown = [i for i in tensors if not i.meta.dtype.startswith(("float", "bfloat"))]
    if not unknown or not whole.ignores_values:
        return case
    folder = runner.scratch / "cut"
    folder.mkdir(exist_ok=True)
    names = [item.name for item in unknown]
    (result,) = runner.run(
        [lambda: run_eagerly(runner.prepared, whole.graph, whole.inputs, whole.state, names, folder)]
    )
    if result is None or result["status"] != "pass":
        return case
    runner.prepared.record(folder)
    inputs = tuple(replace(i, source=Recorded(i.name)) if i in unknown else i for i in case.inputs)
    return replace(case, inputs=inputs)
