"""A failure that depends on earlier calls of the backend: its Case is reduced with these calls ahead."""

from __future__ import annotations

from minifier.capturing.captured_ahead import CapturedCallAhead, read_calls_ahead, with_calls_ahead
from minifier.case.store import ATEN, FORWARD
from minifier.errors import NoRepro
from minifier.slicing import with_definitions
from minifier.workflow.attempt import Attempt
from minifier.workflow.reduction import reduce, reduce_changed, reduce_through_dynamo
from minifier.workflow.script_data import literals_of


def calls_ahead(attempt: Attempt) -> tuple[CapturedCallAhead, ...]:
    """Return the backend's calls ahead of the failing call; none if the Case shows the failure or has them already."""
    call = attempt.call
    if not isinstance(attempt.error, NoRepro) or call is None or call.unsaved or attempt.case.ahead:
        return ()
    return read_calls_ahead(call.found.graphs, call.failing.number, call.failing.call)


def reduce_with_calls_ahead(attempt: Attempt, *, through_dynamo: bool = False) -> Attempt:
    """Reduce again with the calls ahead; return the attempt unchanged if that fails too.

    With `through_dynamo`, probes call torch.compile on the functions of the graphs.
    """
    found, program = calls_ahead(attempt), attempt.program
    literals = literals_of(program, attempt.call.found.captured.path if attempt.call is not None else ())
    return reduce_changed(
        attempt,
        lambda case: with_definitions(with_calls_ahead(case, found), program.source(), literals),
        "with the calls ahead",
        (ATEN, FORWARD),
        reduce_through_dynamo if through_dynamo else reduce,
    )
