"""report.md in its plain form: what failed, the repro, both sightings, how it was reduced, versions."""

from __future__ import annotations

import platform
from pathlib import Path

from minifier import __version__
from minifier.case import Level
from minifier.case.store import write_atomically
from minifier.failure import Failure, Stage
from minifier.failure.normal import normalise
from minifier.report.outcome import Outcome
from minifier.report.privacy import without_private_paths

_TRACEBACK_LINES = 60
_MOST_DIFFERENCES = 8


def _fenced(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _shortened(trace: str) -> str:
    lines = trace.rstrip().splitlines()
    if len(lines) > _TRACEBACK_LINES:
        half = _TRACEBACK_LINES // 2
        lines = [*lines[:half], f"[{len(lines) - 2 * half} lines left out]", *lines[-half:]]
    return "\n".join(lines)


def _versions(outcome: Outcome) -> str:
    import torch

    backend = outcome.case.backend
    rows = [
        ("torch", torch.__version__),
        (
            "backend",
            f"{backend.name} ({backend.distribution} {backend.version})" if backend.distribution else backend.name,
        ),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("torch-minify", __version__),
    ]
    return "".join(f"| {name} | {value} |\n" for name, value in rows)


def _verdict(outcome: Outcome) -> str:
    runs, agreeing = outcome.verified
    if not runs:
        return "The repro was not run."
    if agreeing == runs:
        return f"Same failure: {agreeing} of {runs} runs in fresh interpreters showed the fingerprint of the original."
    return f"**Not the same**: only {agreeing} of {runs} runs in fresh interpreters showed the original's fingerprint."


def _minimality(outcome: Outcome) -> str:
    summary = outcome.summary
    if summary is None or summary.error:
        return "The graph was not reduced.\n"
    text = f"From {summary.ops_before} {outcome.parts} to {summary.ops_after} in {summary.probes['total']} probes. "
    if summary.one_minimal and outcome.case.level is Level.SOURCE:
        return text + "Minimal: each remaining statement was taken out alone, and the failure was gone every time.\n"
    if summary.one_minimal:
        return text + (
            "Minimal: each remaining op was taken away alone (one with several results together with these), "
            "and the failure was gone every time.\n"
        )
    return text + f"Not proved minimal: {summary.stopped_because}.\n"


def _headline(outcome: Outcome) -> str:
    failure, name = outcome.case.failure, outcome.case.backend.name
    fingerprint = failure.fingerprint
    first = (failure.message.strip().splitlines() or [""])[0]
    if fingerprint.stage is Stage.COMPARE:
        title = f"Compiled and eager differ ({fingerprint.message}): torch.compile backend `{name}`"
        return f"# {title}\n\nNothing is raised, but {first[:1].lower()}{first[1:]}.\n".replace("..\n", ".\n")
    if outcome.case.level is Level.SOURCE:
        return f"# {failure.type} in torch.compile\n\n`torch.compile` fails with `{failure.line}`.\n"
    head = f"# {failure.type} in the torch.compile backend `{name}`\n"
    return f"{head}\nThe backend `{name}` fails at the stage *{fingerprint.stage.value}* with `{failure.line}`.\n"


def _often(outcome: Outcome) -> str:
    case = outcome.minimal or outcome.case
    if case.rate >= 1:
        return ""
    return f"It is flaky: it shows in about {case.rate:.0%} of all attempts.\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _differences(failure: Failure) -> str:
    """A table with the error of each result that is not as in eager."""
    shown = failure.differences[:_MOST_DIFFERENCES]
    rows = "".join(
        f"| {d.where} | {d.aspect.value} | {_number(d.error)} | {_number(d.eager_error)} | {_number(d.noise)} "
        f"| {_cell(d.sentence if d.error is None else '')} |\n"
        for d in shown
    )
    if len(failure.differences) > len(shown):
        rows += f"| and {len(failure.differences) - len(shown)} more | | | | | |\n"
    return (
        "| where | what | error | eager's own error | noise of eager | |\n| --- | --- | --- | --- | --- | --- |\n"
        + rows
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _parting(outcome: Outcome) -> list[str]:
    """Where in the graph compiled and eager part, if the reduction looked: pairs of an op and a sentence."""
    pairs = outcome.summary.parting if outcome.summary is not None else ()
    if not pairs:
        return []
    return ["## Ops where compiled and eager part\n", "".join(f"- `{op}`: {sentence}\n" for op, sentence in pairs)]


def _needs(outcome: Outcome) -> list[str]:
    """What the failure takes, and the programs nearest to it that pass."""
    case, summary = outcome.minimal, outcome.summary
    if case is None or summary is None or not summary.passes:
        return []
    taken = [name for name, end in summary.passes.items() if end == "fixpoint"]
    parts = ["## What it takes\n"]
    if case.needs:
        parts.append(f"{' and '.join(case.needs).capitalize()}.\n")
    else:
        all_of_them = {"sizes", "dtypes", "layout", "data"} <= set(taken)
        parts.append("No particular size, dtype, stride or value of an input.\n" if all_of_them else "")
    if summary.needs:
        rows = "".join(f"- {name} ({family})\n" for family, _, name in (n.partition(": ") for n in summary.needs))
        parts.append(f"The failure is gone as soon as one of these is made plainer:\n\n{rows}")
    return parts


def _nearest(outcome: Outcome) -> list[str]:
    """The nearest program that passes."""
    if not outcome.nearest:
        return []
    return [
        "## The nearest that passes\n",
        "With this change the failure was gone:\n",
        _fenced(outcome.nearest, "diff"),
    ]


def _phases(outcome: Outcome) -> list[str]:
    summary = outcome.summary
    if summary is None or not (summary.phases or summary.notes):
        return []
    parts = ["## How it was reduced\n"]
    if summary.phases:
        rows = "".join(
            f"| {name} | {probes} | {before} | {after} |\n" for name, probes, before, after in summary.phases
        )
        parts.append("| phase | probes | ops before | ops after |\n| --- | --- | --- | --- |\n" + rows)
    if summary.notes:
        parts.append("".join(f"- {note}\n" for note in summary.notes))
    return parts


def _sightings(outcome: Outcome) -> list[str]:
    """The failure as the script showed it and as the repro does: a traceback, or what was printed before a death."""
    failure = outcome.case.failure
    told = failure.traceback or failure.message
    parts = [
        "## The two errors\n" if failure.fingerprint.stage is not Stage.COMPARE else "## The difference\n",
        _verdict(outcome) + "\n",
    ]
    if failure.differences:
        parts.append(_differences(failure))
    if not failure.differences:
        parts += ["Original:\n", _fenced(_shortened(told))]
    if outcome.verification is not None and outcome.verification.runs:
        run = outcome.verification.runs[0]
        seen = run.failure.traceback if run.failure is not None else run.output
        parts += ["Repro:\n", _fenced(_shortened(seen or run.output or "(it printed nothing)"))]
    return [*parts, f"Compared by: `{normalise(failure.fingerprint.sentence())}`\n"]


def report(outcome: Outcome) -> str:
    """The report as Markdown."""
    parts = [_headline(outcome), _often(outcome), _minimality(outcome)]
    if outcome.repro is not None:
        parts += ["## Repro\n", _fenced(outcome.repro.text, "python")]
    if outcome.reason:
        parts += [
            "## Why there is no repro\n" if outcome.repro is None else "## Note\n",
            outcome.reason + "\n",
        ]
    parts += [*_sightings(outcome), *_parting(outcome), *_needs(outcome), *_nearest(outcome), *_phases(outcome)]
    if outcome.summary is not None and outcome.summary.others:
        rows = "".join(
            f"- `{other['type']}: {(other['message'].splitlines() or [''])[0]}` at {other['ops']} ops, "
            f"seen {other['sightings']} times ({other['case']})\n"
            for other in outcome.summary.others
        )
        parts += ["## Other failures met on the way, not followed\n", rows]
    skipped = (outcome.minimal or outcome.case).state.skipped
    if skipped:
        parts += ["## State that could not be written down\n", "".join(f"- {line}\n" for line in skipped)]
    if outcome.others:
        parts += [
            "## Other failing graphs of the script\n",
            "".join(f"- {line}\n" for line in outcome.others),
        ]
    parts += ["## Versions\n", "| | |\n| --- | --- |\n" + _versions(outcome)]
    return without_private_paths("\n".join(filter(None, parts)), outcome.case.script.path)


def write_report(folder: Path, outcome: Outcome) -> None:
    """Writes report.md into the output folder."""
    write_atomically(folder / "report.md", report(outcome))
