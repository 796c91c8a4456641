"""Facts about the script's own values, which the passes over data replace."""

from __future__ import annotations

from typing import Any

from minifier.case import Case, Drawn, TensorInput
from minifier.passes.data import Facts
from minifier.probe.evaluate import look_at_inputs
from minifier.reduction.probe_runner import ProbeRunner


def facts_of(runner: ProbeRunner, case: Case) -> dict[str, Facts]:
    """Return bounds and small values of inputs with the script's own values; {} if the child failed."""
    names = {i.name for i in case.inputs if isinstance(i, TensorInput) and not isinstance(i.source, Drawn)}
    if not names:
        return {}
    (result,) = runner.run([lambda: look_at_inputs(runner.prepared, case.inputs)])
    facts: dict[str, Any] = result["facts"] if result is not None else {}
    return {
        name: Facts(low, high, None if values is None else tuple(values))
        for name, (low, high, values) in facts.items()
        if name in names
    }
