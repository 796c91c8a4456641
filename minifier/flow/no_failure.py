"""Reduce a script in which no backend call failed, or describe it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from minifier.capturing.capture import FoundFailures, run_by_itself, run_in_eager
from minifier.capturing.captured import Captured, is_of_torch
from minifier.capturing.script import Program
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.switches import assignments
from minifier.data.failure import same
from minifier.data.losses import losses
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
from minifier.flow.compared_script import compare_script, minify_compared
from minifier.flow.whole_script import minify_script
from minifier.process.progress import counted
from minifier.repro.report.outcome import Outcome

_MAX_LOG_LINES = 3
_MAX_LINE_CHARACTERS = 600
_MIN_CHILD_SECONDS = 1.0  # that tells a program from what an import starts
_WRONG_USAGE = 2  # the exit status by which argparse and click refuse arguments


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
            compared = compare_script(found, run.ui)
            if compared.sights:
                run.ui.say(
                    f"each graph is right, but the script does not see what it sees in eager mode: {compared.sights[0]}"
                )
                try:
                    return minify_compared(found, compared.sights, folder, run)
                except NoRepro as error:
                    run.ui.say(f"no check shows that: {error}")
                    said = f"Not confirmed, so that it may be no failure: {compared.sights[0]}."
                    compared = replace(compared, said=said)
            return _minify_unobserved(found, folder, run, NothingToReduce(f"{nothing}\n{compared.said}".strip()))
        raise nothing
    run.ui.say("no backend call failed, but the script did: running it in eager mode")
    in_eager = run_in_eager(found, "in-eager", run.ui)
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
        return minify_script(found, folder, run)
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
    if INVALID_BACKEND in captured.traceback:
        what = "--backend" if program.is_redirected else name
        return NoSuchBackend(
            f"{what} names a backend that does not exist.\n{captured.error}\n{_similar(captured.traceback)}"
        )
    elsewhere = _in_other_processes(captured)
    as_in_eager = _in_eager(captured, None if elsewhere else in_eager)  # there, other processes compile all the same
    if captured.end.signal is not None:
        end = f"{name} died of signal {captured.end.signal} outside of any backend call{as_in_eager}."
    elif captured.traceback:
        end = f"{name} fails{as_in_eager}: {captured.error}\nNo backend call failed."
    else:
        end = f"{name} ended with exit status {captured.script_status}{as_in_eager}"
        if not (captured.graphs or losses()):  # of which one may be that of all graphs
            nothing = (
                "nothing in it was compiled: no call reached a function under torch.compile, or Dynamo found no ops"
            )
            usage = ["The script's own arguments go after its name."] if captured.script_status == _WRONG_USAGE else []
            return NothingCompiled("\n".join([f"{end}, and {nothing} to compile in it.", *usage, *elsewhere]))
        end += ", and no backend call failed."
    is_by_itself = not elsewhere and in_eager is not None and fails_in_eager_too(captured, in_eager)
    kind = FailsByItself if is_by_itself else NothingToReduce
    facts = (end, *losses(), *_checks(captured, compared), *_of_backend(captured, compared), *elsewhere)
    return kind("\n".join((*facts, *_too_late(captured))))


def _checks(captured: Captured, compared: Captured | None) -> Iterator[str]:
    """Yield a line for each check that was made, after what could not be compared."""
    reasons = compared.not_compared if compared is not None else ()
    yield from _listed(
        "Not compared with eager's",
        [f"graph {number}: {reason.strip().splitlines()[-1]}" for number, reason in reasons],
    )
    if not captured.graphs:
        yield "Checked: no graph was seen to go to a backend."
        return
    graphs = f"{counted(captured.graphs, 'graph')} went to the backend ({', '.join(captured.backends)})"
    declined = len(captured.declined)  # for these, the backend raised what Dynamo takes for its own word
    compiled = "each was compiled"
    if declined:
        raised = ", ".join(dict.fromkeys(captured.declined))
        rest = "none was compiled" if declined == captured.graphs else "the others were compiled"
        compiled = f"the backend declined {declined} of them ({raised}), {rest}"
    yield f"Checked: {graphs}; {compiled}, and each call of the result was watched for an exception."
    if compared is None:
        yield "Results were not compared with eager's."
    else:
        yield from _comparison(captured, compared)


def _comparison(first: Captured, compared: Captured) -> Iterator[str]:
    """Yield a line for each fact about the results that were compared with eager's."""
    graphs = {number for number, _, _ in compared.compared}
    trained = {number for number, _, gradients in compared.compared if gradients}
    if not graphs:
        yield "No result could be compared with eager's."
    else:
        of_calls = f"{len(compared.compared)} of {counted(sum(count for _, count in first.calls), 'call')}"
        of_graphs = f"{len(graphs)} of {counted(len(first.forwards), 'graph')}"
        gradients = f", and the gradients of {len(trained)}" if trained else ""
        agreed = "agreed with eager's"
        if compared.excused:
            agreed = "agreed with eager's, but for those named below"
        yield f"Compared: {of_calls}, of {of_graphs}{gradients}. The results {agreed}."
    if compared.bounded:
        yield f"Further calls were not compared once comparing had taken {compared.bounded:.0f} s."
    if compared.furthest:
        yield (
            f"Furthest of what agreed is {compared.furthest} (--rtol and --atol set other limits, and with --compare "
            "strict eager's own variation excuses nothing)."
        )
    if graphs and first.failure is not None:
        yield "What the script does outside of its graphs was not compared."
    if how := _second_end(first, compared):
        yield f"The second run, which compares, went otherwise than the first: it {how}."
    excused = [f"graph {number}, call {call}: {sentence}" for number, call, sentence in compared.excused]
    if excused:
        yield from _listed("A result is not eager's, and counts as right only because eager itself varies", excused)
        yield "With --compare strict that is a failure, and is reduced like any other."


def _second_end(first: Captured, second: Captured) -> str:
    """Say how the comparing run ended; "" if both runs ended alike. Else graphs may be missing."""
    if second.lost is not None:
        return "did not survive the comparison"
    if second.end.interrupted:
        return "was interrupted"
    if second.end.signal != first.end.signal:
        return f"died of signal {second.end.signal}" if second.end.signal is not None else "did not die"
    if second.error and second.error != first.error:
        return f"failed: {second.error}"
    if second.script_status != first.script_status:
        return f"ended with exit status {second.script_status}"
    return f"came to {len(second.forwards)} graphs" if len(second.forwards) != len(first.forwards) else ""


def _of_backend(captured: Captured, compared: Captured | None) -> Iterator[str]:
    """Yield lines about what a backend may have worked around: graphs that it left to others, and logged lines."""
    if compared is not None and compared.fallbacks:
        head, *lines = backend_fallbacks(compared)
        yield from _listed(head, lines)
        if any(seen.line and not seen.is_plain for seen in compared.fallbacks):
            yield "With --fallbacks that is a failure, and is reduced like any other."
        elif not all(seen.is_plain for seen in compared.fallbacks):
            yield "No line of a log was heard about that, which a repro could show: --fallbacks does not count it."
    if logged := [line.splitlines()[0] for line in captured.logged if line]:
        yield from _listed("During backend calls this was logged", logged)
        yield "With --match-log REGEX a line that matches is a failure, and is reduced like any other."


def _in_other_processes(captured: Captured) -> tuple[str, ...]:
    """Say that processes are not watched which the script started, if it compiled nothing itself and they computed."""
    if captured.graphs or captured.children < _MIN_CHILD_SECONDS:
        return ()
    return (
        f"It started other processes, which computed for {captured.children:.0f} s. What they compile is not "
        "watched: use `minify run` on the program of one of them, with its arguments and variables.",
    )


def _in_eager(captured: Captured, in_eager: Captured | None) -> str:
    """Say how the script ended in eager mode."""
    if in_eager is None:
        return ""
    if fails_in_eager_too(captured, in_eager):
        return " by itself, without torch.compile as well"
    if in_eager.failure is None:
        return " with torch.compile, but not in eager mode"
    return f" with torch.compile, and in eager mode in another way ({in_eager.failure.line})"


def _too_late(captured: Captured) -> tuple[str, ...]:
    """Describe the variables that the script set for torch's import, which minify had made already."""
    if not captured.environment:
        return ()
    variables = assignments(captured.environment)
    return (
        f"The script sets {variables}, which torch reads when it is imported: under minify that is before the script "
        f"starts. Try `{variables} minify run ...`.",
    )


def _listed(head: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a head and the first of these lines, nothing without any."""
    if lines:
        yield f"{head}:"
    for line in lines[:_MAX_LOG_LINES]:
        yield f"    {line}" if len(line) <= _MAX_LINE_CHARACTERS else f"    {line[:_MAX_LINE_CHARACTERS]} ..."
    if len(lines) > _MAX_LOG_LINES:
        yield f"    and {len(lines) - _MAX_LOG_LINES} more"


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
