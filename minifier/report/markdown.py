"""report.md in its plain form: what failed, the repro, both tracebacks, versions."""

from __future__ import annotations

import platform
from pathlib import Path

from minifier import __version__
from minifier.case.store import write_atomically
from minifier.failure.normal import normalise
from minifier.report.outcome import Outcome
from minifier.report.privacy import without_private_paths

_TRACEBACK_LINES = 60


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
    text = f"From {summary.ops_before} ops to {summary.ops_after} in {summary.probes['total']} probes. "
    if summary.one_minimal:
        return text + (
            "Minimal: each remaining op was taken away alone (one with several results together with these), "
            "and the failure was gone every time.\n"
        )
    return text + f"Not proved minimal: {summary.stopped_because}.\n"


def report(outcome: Outcome) -> str:
    """The report as Markdown."""
    failure = outcome.case.failure
    stage = failure.fingerprint.stage.value
    first = (failure.message.strip().splitlines() or [""])[0]
    parts = [
        f"# {failure.type} in the torch.compile backend `{outcome.case.backend.name}`\n",
        f"The backend `{outcome.case.backend.name}` fails at the stage *{stage}* with `{failure.type}: {first}`.\n",
        _minimality(outcome),
    ]
    if outcome.repro is not None:
        parts += ["## Repro\n", _fenced(outcome.repro.text, "python")]
    if outcome.reason:
        parts += [
            "## Why there is no repro\n" if outcome.repro is None else "## Note\n",
            outcome.reason + "\n",
        ]
    parts += [
        "## The two errors\n",
        _verdict(outcome) + "\n",
        "Original:\n",
        _fenced(_shortened(failure.traceback)),
    ]
    if outcome.verification is not None and outcome.verification.runs:
        seen = outcome.verification.runs[0].failure
        parts += [
            "Repro:\n",
            _fenced(_shortened(seen.traceback if seen is not None else outcome.verification.runs[0].output)),
        ]
    parts += [f"Compared by: `{normalise(failure.fingerprint.sentence())}`\n"]
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
    return without_private_paths("\n".join(parts), outcome.case.script.path)


def write_report(folder: Path, outcome: Outcome) -> None:
    """Writes report.md into the output folder."""
    write_atomically(folder / "report.md", report(outcome))
