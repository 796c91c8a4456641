"""`minify reduce`: a Case from elsewhere, a run that was interrupted, or what a process left that died."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from minifier.cli.around import cluster_of, import_torch, temporary_folder
from minifier.cli.by_source import by_source
from minifier.cli.console import EXIT_CODE, Console
from minifier.cli.options import settings_from
from minifier.cli.paths import case_folder, output_folder
from minifier.embed.leftovers import is_unfinished
from minifier.errors import UsageError
from minifier.process.progress import Phase, Progress
from minifier.workflow.interrupted_runs import asked_there, hold


def reduce_command(given_folder: Path, given: dict[str, Any]) -> int:
    """Reduces a Case folder; in place if it is the output folder of an earlier run."""
    with Console.as_given(given) as console:
        return _reduce(given_folder, given, console)


def _reduce(given_folder: Path, given: dict[str, Any], console: Console) -> int:
    started = time.monotonic()
    folder = case_folder(given_folder)
    unfinished = is_unfinished(given_folder)
    if not (folder / "case.json").exists() and not unfinished:
        raise UsageError(f"{folder} is not a Case folder: it has no case.json.")
    settings = settings_from(given)
    console.show(Progress(Phase.LOADING))
    import_torch()
    from minifier.case.store import load
    from minifier.workflow.pipeline import adopt, finish
    from minifier.workflow.reduction import Surroundings

    if unfinished:
        from minifier.embed.dead_process import take_up

        console.show(Progress(Phase.REPLAY, subject=str(given_folder)))
        with temporary_folder():
            take_up(given_folder.absolute(), settings, console.tick)
        folder = case_folder(given_folder)
    resumes = folder != given_folder and given["out"] is None
    case = load(folder)
    out = given_folder.absolute() if resumes else output_folder(given["out"], case.script.name)
    if not resumes:
        case = adopt(folder, out)
    hold(out)
    with temporary_folder(), cluster_of(given) as cluster:
        outcome = finish(case, out, settings, Surroundings(console.say, console, cluster, console.ask), started, 0.0)
        asked = asked_there(out) if resumes else None
        if asked is not None:
            outcome = by_source(asked, outcome, out, settings, console, started)
    console.final(outcome, out)
    return int(EXIT_CODE[outcome.status.value])
