"""Makes the calls of the backend ahead of the failing call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minifier.case import Case
from minifier.case.case import CallAhead
from minifier.case.symbolic_sizes import goes_through_dynamo
from minifier.failure.observed import describe, text
from minifier.fx.recorded_values import make_inputs
from minifier.probe.backward_pass import run_backward
from minifier.probe.compiling import Compiled, compile_candidate, compiled_by_dynamo
from minifier.probe.life import AHEAD, tell
from minifier.probe.prepared_case import PreparedCase
from minifier.torch_private import as_while_compiling


def make_calls_ahead(prepared: PreparedCase, case: Case, calls: Sequence[CallAhead]) -> dict[str, Any] | None:
    """Compile and run the graphs of these calls. Return the probe's answer if a call fails, else None."""
    for call in calls:
        tell(stage=AHEAD)
        earlier = case.of(call)
        try:
            compiled = _compiled(prepared, earlier)
            for _ in range(call.calls):
                result = compiled(make_inputs(call.inputs, prepared.tensors, prepared.recorded))
                if call.backward:
                    run_backward(result)
        except BaseException as error:  # noqa: BLE001 - whatever the backend raises, the Case's own graph is not reached
            return {"status": "invalid", "links": describe(error), "traceback": text(error)}
    return None


def _compiled(prepared: PreparedCase, earlier: Case) -> Compiled:
    if goes_through_dynamo(earlier):
        return compiled_by_dynamo(prepared, earlier)
    with as_while_compiling():
        return compile_candidate(prepared, earlier, make_inputs(earlier.inputs, prepared.tensors, prepared.recorded))
