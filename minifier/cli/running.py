"""`minify run` and `minify reduce`."""

from __future__ import annotations

from pathlib import Path

from minifier.capturing.script import Program
from minifier.case.store import CASE, load
from minifier.cli.check_program import check_program
from minifier.cli.console import EXIT_CODE, Console
from minifier.cli.options import Options
from minifier.errors import ExitCode, UsageError
from minifier.workflow.exported_program import check_exported, is_exported
from minifier.workflow.interrupted_runs import Asked, goes_on
from minifier.workflow.leftovers import is_unfinished
from minifier.workflow.machine import prepared
from minifier.workflow.run_folder import case_folder, choose_folder


def run_command(asked: Asked, every: bool, backend: str | None, options: Options) -> int:
    """Run the script and reduce its failures; return the exit code, of several failures the first that is not 0."""
    if every and asked.graph is not None:
        raise UsageError("--graph and --all contradict each other: give one of them.")
    _check(asked.program, backend)
    with Console.for_options(options) as console:
        may_go_on = not every and options.out is None and options.settings.level != "source"
        interrupted = goes_on(asked, console) if may_go_on else None
        if interrupted is not None:
            return _reduce(interrupted, options, console)
        choose_folder(options.out, asked.program.name)  # bad ones are refused before torch is imported
        codes = []
        with prepared(options.settings, console) as cluster:
            from minifier.workflow.attempt import Run
            from minifier.workflow.run import minify_each

            run = Run(options.settings, console, cluster)
            for outcome in minify_each(asked, run, options.out, every, backend or ""):
                console.final(outcome)
                codes.append(EXIT_CODE[outcome.status.value])
    return int(next((code for code in codes if code != ExitCode.REDUCED), ExitCode.REDUCED))


def reduce_command(given: Path, options: Options) -> int:
    """Reduce a Case folder, or go on with the output folder of an earlier run; return the exit code."""
    with Console.for_options(options) as console:
        return _reduce(given, options, console)


def _reduce(given: Path, options: Options, console: Console) -> int:
    folder = case_folder(given)
    if not is_unfinished(given):
        if not (folder / CASE).exists():
            raise UsageError(f"{folder} is not a Case folder: it has no case.json.")
        load(folder)  # a damaged one is refused before torch is imported
    with prepared(options.settings, console) as cluster:
        from minifier.workflow.attempt import Run
        from minifier.workflow.run import minify_case

        outcome = minify_case(given, Run(options.settings, console, cluster), options.out)
    console.final(outcome)
    return int(EXIT_CODE[outcome.status.value])


def _check(program: Program, backend: str | None) -> None:
    """Raise UsageError for a program that cannot be run, or a backend that it has no use for."""
    if is_exported(program.target):
        check_exported(program, backend)
    elif backend is not None:
        raise UsageError("--backend is for exported programs (.pt2): a script says itself what compiles it.")
    else:
        check_program(program)
