"""Values at the cuts of a graph as the whole one computes them."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Recorded, Stored, TensorInput
from minifier.probe.evaluate import run_eagerly
from minifier.reduction.probe_runner import ProbeRunner


def with_real_values(lab: ProbeRunner, whole: Case, case: Case) -> Case:
    """The Case with cut values as the whole graph computes them, where that tells more than their shape: a
    compile-time failure is searched with shapes alone."""
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
