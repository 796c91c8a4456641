"""Reduce a script in which no backend call failed, or describe it."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence

from minifier.capturing.capture import FoundFailures, run_by_itself, run_in_eager
from minifier.capturing.captured import Captured, is_of_torch
from minifier.capturing.script import Program
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.switches import assignments
from minifier.data.failure import same
from minifier.data.torch_names import INVALID_BACKEND
from minifier.errors import (
    FailsByItself,
    FailsUnobserved,
    Interrupted,
    MinifyError,
    NoRepro,
    NoSuchBackend,
    NothingCompiled,
    NothingToReduce,
)
from minifier.flow.attempt import Run, backend_fallbacks
from minifier.flow.whole_script import minify_failing_source, minify_script
from minifier.repro.report.outcome import Outcome

_MAX_LOG_LINES = 3
_MAX_LINE_CHARACTERS = 600
_MIN_CHILD_SECONDS = 1.0  # that tells a program from what an import starts


def minify_other_failure(found: FoundFailures, folder: RunFolder, run: Run) -> Outcome:
    """Reduce a script in which no backend call failed, if torch.compile itself failed, or the script did.

    Raises an error that lists the checks if the script ended well, or fails in eager mode too.
    """
    program, captured = found.program, found.captured
    if is_of_torch(captured.error, captured.traceback):
        run.ui.say("torch.compile itself failed, and no graph shows that: reducing the script itself")
        return minify_script(found, folder, run)
    if captured.failure is None or INVALID_BACKEND in captured.traceback:
        nothing = nothing_failed(program, captured, found.compared)
        if type(nothing) is NothingToReduce:
            return _minify_unobserved(found, folder, run, nothing)
        raise nothing
    run.ui.say("no backend call failed, but the script did: running it in eager mode")
    in_eager = run_in_eager(found, run.ui)
    nothing = nothing_failed(program, captured, found.compared, in_eager)
    if fails_in_eager_too(captured, in_eager) or not isinstance(nothing, NothingToReduce):
        raise nothing
    run.ui.say("torch.compile makes it fail, and no graph shows that: reducing the script itself")
    try:
        return minify_script(found, folder, run, f"{nothing}\n")
    except NothingToReduce as error:
        raise type(error)(f"{nothing}\n{error}") from None


def _minify_unobserved(found: FoundFailures, folder: RunFolder, run: Run, nothing: NothingToReduce) -> Outcome:
    """Reduce a script that ended well, if it fails without this tool's hooks: runs of its source have only some.

    Raises `nothing` if it ends well then too, and FailsUnobserved if the script cannot be reduced.
    """
    run.ui.say("nothing failed: running the script once more, without any hook of minify")
    how = run_by_itself(found, run.ui)
    if not how:
        raise nothing
    run.ui.say(f"without any hook {found.program.said} ends {how}: reducing the script itself")
    try:
        return minify_failing_source(found, folder, run)
    except (NoRepro, NothingToReduce) as error:
        raise FailsUnobserved(
            f"{found.program.said} ends {how}\nThat is so only where Python runs it by itself. Under minify it ended "
            "well. A hook of minify makes the difference, or what earlier runs have left in AOTAutograd's cache.\n"
            f"{nothing}\nThe script itself was not reduced: {error}"
        ) from None


def minify_source(found: FoundFailures, folder: RunFolder, run: Run) -> Outcome:
    """Reduce a script by the failure that ended it. Raises an error if it ended without one."""
    captured, said = found.captured, found.program.said
    if captured.failure is not None and not captured.end.interrupted:
        return minify_script(found, folder, run)
    if not captured.failing or captured.end.interrupted:
        raise nothing_failed(found.program, captured, None)
    raise NoRepro(
        f"{said} ends without a failure, though a backend call fails in it: {captured.failing[0].sentence}\n"
        "The source of a script is reduced by the failure that ends it; without --level source the graph is reduced."
    )


def fails_in_eager_too(captured: Captured, in_eager: Captured) -> bool:
    """Whether the run in eager mode showed the same failure."""
    first, second = captured.failure, in_eager.failure
    return first is not None and second is not None and same(first.fingerprint, second.fingerprint)


def nothing_failed(
    program: Program, captured: Captured, compared: Captured | None, in_eager: Captured | None = None
) -> MinifyError:
    """Build the error with the reason why there is nothing to reduce, and with the checks that were made.

    `in_eager` is the run of a script that fails outside of its backend calls, with torch.compile in eager mode.
    """
    name = program.said
    if any(run is not None and run.end.interrupted for run in (captured, compared, in_eager)):
        hint = "; with --timeout SECONDS a call that takes longer is taken for a hang" if captured.graphs else ""
        return Interrupted(f"{name} was interrupted before a backend call had failed{hint}")
    checked = (
        f"{_not_compared(compared)}Checked: {captured.graphs} graph{'s' if captured.graphs != 1 else ''} went to the "
        f"backend ({', '.join(captured.backends)}); {_compiled(captured)}, and each call of the result was watched for "
        f"an exception{_comparison(captured, compared)}."
        if captured.graphs
        else "Checked: no graph went to a backend."
    )
    elsewhere = _in_other_processes(captured)
    in_eager = None if elsewhere else in_eager  # there, other processes compile all the same
    as_in_eager = _in_eager(captured, in_eager)
    kind = FailsByItself if in_eager is not None and fails_in_eager_too(captured, in_eager) else NothingToReduce
    if captured.end.signal is not None:
        return kind(
            f"{name} died of signal {captured.end.signal} outside of any backend call{as_in_eager}. {checked}"
            + _advice(captured)
        )
    last = captured.error
    if INVALID_BACKEND in captured.traceback:
        what = "--backend" if program.is_redirected else name
        return NoSuchBackend(f"{what} names a backend that does not exist.\n{last}\n{_similar(captured.traceback)}")
    if captured.traceback:
        return kind(
            f"{name} fails{as_in_eager}: {last}\nNo backend call failed. {checked}"
            + _left_out(captured, compared)
            + _excused(compared)
            + _fallbacks(compared)
            + _advice(captured)
            + elsewhere
        )
    ended = f"{name} ended with exit status {captured.script_status}{as_in_eager}"
    if not captured.graphs:
        return NothingCompiled(
            f"{ended}, and nothing in it was compiled: no call reached a function under torch.compile, or Dynamo found "
            f"no ops to compile in it.{elsewhere}"
        )
    return kind(
        f"{ended}{',' if as_in_eager else ''} and no backend call failed. {checked}"
        + _left_out(captured, compared)
        + _too_late(captured)
        + _excused(compared)
        + _fallbacks(compared)
        + _advice(captured)
    )


def _in_other_processes(captured: Captured) -> str:
    """Say that processes are not watched which the script started, if it compiled nothing itself and they computed."""
    if captured.graphs or captured.children < _MIN_CHILD_SECONDS:
        return ""
    return (
        f"\nIt started other processes, which computed for {captured.children:.0f} s. What they compile is not "
        "watched: use `minify run` on the program of one of them, with its arguments and variables."
    )


def _compiled(captured: Captured) -> str:
    """Say which graphs were compiled: not those for which the backend raised what Dynamo takes for its own word."""
    if not captured.declined:
        return "each was compiled"
    raised = ", ".join(dict.fromkeys(captured.declined))
    rest = "none was compiled" if len(captured.declined) == captured.graphs else "the others were compiled"
    return f"the backend declined {len(captured.declined)} of them ({raised}), {rest}"


def _in_eager(captured: Captured, in_eager: Captured | None) -> str:
    """Say how the script ended in eager mode."""
    if in_eager is None:
        return ""
    if fails_in_eager_too(captured, in_eager):
        return " by itself, without torch.compile as well"
    if in_eager.failure is None:
        return " with torch.compile, but not in eager mode"
    return f" with torch.compile, and in eager mode in another way ({in_eager.failure.line})"


def _too_late(captured: Captured) -> str:
    """Describe the variables that the script set for torch's import, which minify had made already."""
    if not captured.environment:
        return ""
    variables = assignments(captured.environment)
    return (
        f"\nThe script sets {variables}, which torch reads when it is imported: under minify that is before the "
        f"script starts. Try `{variables} minify run ...`."
    )


def _comparison(first: Captured, compared: Captured | None) -> str:
    """Describe which results were compared with eager."""
    if compared is None:
        return "; results were not compared with eager"
    graphs, calls = len(first.forwards), Counter(number for number, _, _ in compared.compared)
    checked, trained = len(calls), len({number for number, _, gradients in compared.compared if gradients})
    results = "its first result"
    if further := sum(calls.values()) - checked:
        results += f" (and {further} further)"
    if trained:
        results += " and gradients" if trained == checked else f" (and gradients of the {trained} that are trained)"
    agreed = "agreed with eager's"
    if compared.excused:
        agreed = "did not differ from eager's by more than eager itself varies"
    if not checked:
        text = "; no result could be compared with eager's"
    elif checked == graphs:
        text = f"; {results} {agreed}"
    else:
        text = f"; of {checked} of the {graphs} of Dynamo's {results} {agreed}, the rest was not compared"
    if compared.bounded:
        text += f"; further calls were not compared once comparing had taken {compared.bounded:.0f} s"
    if compared.furthest:
        text += f". Furthest of what agreed is {compared.furthest} (--rtol and --atol set other limits, and with "
        text += "--compare strict eager's own variation excuses nothing)"
    return text + _second_end(first, compared)


def _not_compared(compared: Captured | None) -> str:
    """Say which graphs were not compared with eager, or only in part, and why."""
    if compared is None or not compared.not_compared:
        return ""
    compared_graphs = {number for number, _, _ in compared.compared}
    lines = [
        f"graph {number}{' in part' if number in compared_graphs else ''}: {reason.strip().splitlines()[-1]}"
        for number, reason in compared.not_compared
    ]
    return f"Not compared with eager's:{_listed(lines)}\n"


def _fallbacks(compared: Captured | None) -> str:
    """List the exceptions that a backend caught itself, and the graphs that ran elsewhere."""
    told = backend_fallbacks(compared)
    if told is None:
        return ""
    return f"\n{told.head}:{_listed(told.lines)}" + (f"\n{told.advice}" if told.advice else "")


def _listed(lines: Sequence[str]) -> str:
    shown = "".join(f"\n    {_cut(line)}" for line in lines[:_MAX_LOG_LINES])
    return shown + (f"\n    and {len(lines) - _MAX_LOG_LINES} more" if len(lines) > _MAX_LOG_LINES else "")


def _left_out(first: Captured, compared: Captured | None) -> str:
    """Say how many calls were compared, if the script itself finds something wrong."""
    if compared is None or not compared.compared or first.failure is None:
        return ""
    calls = sum(count for _, count in first.calls)
    return (
        f" Of {calls} call{'s' if calls != 1 else ''} {len(compared.compared)} "
        f"{'was' if len(compared.compared) == 1 else 'were'} compared, each with eager on the same inputs; what the "
        "script does outside of its graphs was not."
    )


def _excused(compared: Captured | None) -> str:
    """List the large differences that eager's own variation excuses."""
    lines = (
        [f"graph {number}, call {call}: {sentence}" for number, call, sentence in compared.excused] if compared else []
    )
    if not lines:
        return ""
    return (
        f"\nA result is not eager's, and counts as right only because eager itself varies:{_listed(lines)}\n"
        "With --compare strict that is a failure, and is reduced like any other."
    )


def _second_end(first: Captured, second: Captured) -> str:
    """Describe how the comparing run ended, unless both runs ended alike: graphs may be missing."""
    if second.lost is not None:
        how = "did not survive the comparison"
    elif second.end.interrupted:
        how = "was interrupted"
    elif second.end.signal != first.end.signal:
        how = f"died of signal {second.end.signal}" if second.end.signal is not None else "did not die"
    elif second.error and second.error != first.error:
        how = f"failed: {second.error}"
    elif second.script_status != first.script_status:
        how = f"ended with exit status {second.script_status}"
    elif len(second.forwards) != len(first.forwards):
        how = f"came to {len(second.forwards)} graphs"
    else:
        return ""
    return f". The second run, which compares, went otherwise than the first: it {how}"


def _advice(captured: Captured) -> str:
    """List the lines that backends logged: a backend may have worked around a failure."""
    lines = [line.splitlines()[0] for line in captured.logged if line]
    if not lines:
        return ""
    return (
        f"\nDuring backend calls this was logged:{_listed(lines)}\n"
        "With --match-log REGEX a line that matches is a failure, and is reduced like any other."
    )


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARACTERS else line[:_MAX_LINE_CHARACTERS] + " ..."


def _similar(trace: str) -> str:
    """Suggest backends whose names resemble the unknown name."""
    from minifier.torch_side.torch_private.registrations import backend_table

    unknown = re.search(rf"{INVALID_BACKEND}: Invalid backend: '([^']*)'", trace)
    known = [name for name, _, _ in backend_table()]
    close = difflib.get_close_matches(unknown.group(1), known) if unknown else []
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    return (
        hint + "`minify backends` lists what torch.compile finds; a backend that a module registers is found only "
        "once that module is imported."
    )
