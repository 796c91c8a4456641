"""A failure whose message varies with the graph, or each time: its type and its place identify the failure."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Level
from minifier.errors import OtherMessage
from minifier.workflow.attempt import Attempt
from minifier.workflow.reduction import reduce_anew, reduce_changed, reduce_through_dynamo

_MIN_OPS = 6  # of a reduced graph; a smaller one is read all the same
_MIN_PROPORTION = 0.5  # of its ops: so many parts of it fail with messages of their own


def may_vary(attempt: Attempt) -> bool:
    """Whether the exception may have been raised again with another message.

    The whole graph raised the exception with another message, or many graphs smaller than the reduced graph raised the
    same type of exception in the same function, each with its own message.
    """
    if attempt.case.failure.fingerprint.any_message:
        return False
    if attempt.reduced is None:
        return isinstance(attempt.error, OtherMessage)
    summary = attempt.reduced.summary
    near = sum(other["near"] for other in summary.others)
    is_held_up = summary.ops_after >= _MIN_OPS and near >= _MIN_PROPORTION * summary.ops_after
    return is_held_up and not summary.stopped_because


def said_of_message(attempt: Attempt) -> str:
    """Return the sentence that is printed before the fallback."""
    in_parts = "smaller graphs fail in the same function with other messages"
    why = f"{attempt.error}\nthe message varies" if attempt.error else in_parts
    return f"{why}: trying again with any message from the same function that shares half of its words"


def reduce_by_place(attempt: Attempt) -> Attempt:
    """Reduce again without comparing whole messages; return the attempt unchanged if that fails too.

    A graph of Dynamo's that did not show the failure is probed through torch.compile, as in the script.
    """

    def with_any_message(case: Case) -> Case:
        fingerprint = replace(case.failure.fingerprint, any_message=True)
        return replace(case, failure=replace(case.failure, fingerprint=fingerprint))

    is_of_dynamo = attempt.reduced is None and attempt.case.level is Level.DYNAMO
    reducing = reduce_through_dynamo if is_of_dynamo else reduce_anew
    return reduce_changed(attempt, with_any_message, "by type and place", reducing=reducing)
