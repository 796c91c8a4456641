"""`minify run` and `minify reduce`."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path

from minifier.capturing.script import Program
from minifier.case.store import CASE, load
from minifier.cli.console import EXIT_CODE, Console
from minifier.cli.options import Options
from minifier.errors import ExitCode, UsageError
from minifier.process.interpreters import Interpreters
from minifier.workflow.exported_program import check_exported, is_exported
from minifier.workflow.interrupted_runs import Asked, goes_on
from minifier.workflow.leftovers import is_unfinished
from minifier.workflow.machine import prepared
from minifier.workflow.run_folder import case_folder, choose_folder


def run_command(
    asked: Asked,
    every: bool,
    backend: str | None,
    options: Options,
    interpreters: Interpreters,
    misplaced: Sequence[str] = (),
) -> int:
    """Run the script and reduce its failures; return the first exit code that is not 0.

    `misplaced` are arguments of the script that are named like options of minify.
    """
    if every and asked.graph is not None:
        raise UsageError("--graph and --all contradict each other: give one of them.")
    _check_program(asked.program, backend)
    with Console.for_options(options) as console:
        if misplaced:
            names, stand = ", ".join(misplaced), "it stands" if len(misplaced) == 1 else "they stand"
            console.say(f"{names}: given to {asked.program.said}, as {stand} after it; minify's options go before it")
        may_go_on = not every and options.out is None and options.settings.level != "source"
        interrupted = goes_on(asked, console) if may_go_on else None
        if interrupted is not None:
            return _reduce(interrupted, options, console, interpreters)
        folder = choose_folder(options.out, asked.program.name)  # an unusable one is refused before torch is imported
        codes = []
        with prepared(options.settings, console, interpreters) as run:
            from minifier.workflow.run import minify_each

            for outcome in minify_each(asked, run, folder, every, backend or ""):
                console.final(outcome)
                codes.append(EXIT_CODE[outcome.status.value])
    return int(next((code for code in codes if code != ExitCode.REDUCED), ExitCode.REDUCED))


def reduce_command(folder: Path, options: Options, interpreters: Interpreters) -> int:
    """Reduce a Case folder, or go on with the output folder of an earlier run; return the exit code."""
    with Console.for_options(options) as console:
        return _reduce(folder, options, console, interpreters)


def _reduce(folder: Path, options: Options, console: Console, interpreters: Interpreters) -> int:
    case_dir = case_folder(folder)
    if not is_unfinished(folder):
        if not (case_dir / CASE).exists():
            raise UsageError(f"{case_dir} is not a Case folder: it has no case.json.")
        load(case_dir)  # a damaged one is refused before torch is imported
    with prepared(options.settings, console, interpreters) as run:
        from minifier.workflow.run import minify_case

        outcome = minify_case(folder, run, options.out)
    console.final(outcome)
    return int(EXIT_CODE[outcome.status.value])


def _check_program(program: Program, backend: str | None) -> None:
    """Raise UsageError for a program that cannot be run, or a superfluous `--backend`."""
    if is_exported(program.target):
        check_exported(program, backend)
    elif backend is not None:
        raise UsageError("--backend is for exported programs (.pt2): a script says itself what compiles it.")
    else:
        _check_script(program)


def _check_script(program: Program) -> None:
    """Raise UsageError unless the script is readable Python source, or the module exists."""
    if program.is_module:
        top = program.target.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is None:
            raise UsageError(f"no module named {top} can be found from here.")
        return
    path = Path(program.target)
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name the script in it, or use -m for a module.")
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    try:
        source = path.read_bytes()
        compile(source, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        raise UsageError(f"{path} is not valid Python: line {error.lineno}: {error.msg}.") from None
    except (ValueError, tokenize.TokenError) as error:
        raise UsageError(f"{path} is not a Python script: {error}.") from None
