"""The commands that run code: run, reduce, explain, check, test; the question ahead of running somebody else's."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from minifier.data.case.files import check_folder, why_no_key
from minifier.data.case.run_folder import RunFolder, next_place, typed_path
from minifier.data.case.store import CASE, copy_atomically, load, write_atomically
from minifier.data.settings import Settings
from minifier.errors import ExitCode, MinifyError, NoRepro, NothingToReduce, NotTrusted, UsageError
from minifier.flow.check_program import check_program, misspelt_backend
from minifier.flow.cli.console import Console, print_error, print_line
from minifier.flow.cli.options import Options
from minifier.flow.folders import Asked, case_folder, choose_folder, goes_on, is_finished, is_unfinished, script_there
from minifier.flow.foreign_code import foreign_code_in, foreign_code_of, foreign_code_of_run, shown
from minifier.flow.prepare import prepared
from minifier.process.child import Child, run_to_end
from minifier.process.interpreters import Interpreters, clean_environment
from minifier.process.progress import Phase, Progress, Ui

_EXIT_CODE = {"reduced": ExitCode.REDUCED, "stopped": ExitCode.STOPPED, "no-repro": ExitCode.NO_REPRO}


@contextlib.contextmanager
def ends_as_json(wanted: bool) -> Iterator[None]:
    """If wanted, print an exception from the body to standard output too, as a line of JSON."""
    try:
        yield
    except Exception as error:
        if wanted:
            code = error.exit_code if isinstance(error, MinifyError) else ExitCode.INTERNAL
            status = code.name.lower().replace("_", "-")
            told = {"version": 1, "status": status, "reason": str(error)}
            if isinstance(error, NothingToReduce):
                told["cause"] = error.cause
            print(json.dumps(told), flush=True)
        raise


def run_command(
    asked: Asked, every: bool, options: Options, interpreters: Interpreters, misplaced: Sequence[str] = ()
) -> int:
    """Run the script and reduce its failures; return the first exit code that is not 0.

    `misplaced` are arguments of the script that are named like options of minify.
    """
    if every and asked.graph is not None:
        raise UsageError("--graph and --all contradict each other: give one of them.")
    check_program(asked.program, options.settings.level)
    with Console(options.quiet, options.verbose, options.json) as console:
        if doubt := misspelt_backend(asked.program):
            console.say(doubt)
        if misplaced:
            names, stand = ", ".join(misplaced), "it stands" if len(misplaced) == 1 else "they stand"
            console.say(f"{names}: given to {asked.program.said}, as {stand} after it; minify's options go before it")
        may_go_on = not every and options.out is None
        interrupted = goes_on(asked, console, options.settings.level == "source") if may_go_on else None
        if interrupted is not None:
            return _reduce(interrupted, options, console, interpreters)
        folder = choose_folder(options.out, asked.program.name)  # an unusable one is refused before torch is imported
        codes = []
        with prepared(options.settings, console, interpreters) as run:
            from minifier.flow.run import minify_each

            for outcome in minify_each(asked, run, folder, every):
                console.final(outcome)
                codes.append(_EXIT_CODE[outcome.status.value])
    return int(next((code for code in codes if code != ExitCode.REDUCED), ExitCode.REDUCED))


def reduce_command(folder: Path, options: Options, interpreters: Interpreters, trust: bool = False) -> int:
    """Reduce a Case folder, or go on with the output folder of an earlier run; return the exit code.

    A finished run stays as it is: its last lines are printed, or its Case is reduced again into a new folder, if the
    user wants that. Raises NotTrusted if the folder has code of somebody else, unless the user agrees or has agreed
    with `trust`.
    """
    with Console(options.quiet, options.verbose, options.json) as console:
        return _reduce(folder, options, console, interpreters, trust)


def _reduce(folder: Path, options: Options, console: Console, interpreters: Interpreters, trust: bool = False) -> int:
    folder = folder.resolve() if folder.is_symlink() else folder
    check_folder(folder)
    case_dir = case_folder(folder)
    if not is_unfinished(folder) and script_there(folder) is None:
        if not (case_dir / CASE).exists():
            is_of_source = (RunFolder(folder).minimal / CASE).exists()
            hint = " A script that was reduced as source begins again with `minify run`." if is_of_source else ""
            raise UsageError(f"{case_dir} is not a Case folder: it has no case.json.{hint}")
        case = load(case_dir)  # a damaged one is refused before torch is imported
    ask_about(str(folder), foreign_code_in(folder), console, trust)
    if options.out is None and is_finished(folder):
        again, done = next_place(case.script.name), f"{folder} is finished"
        if not console.ask(f"{done}, and its repro is {RunFolder(folder).repro}: reduce its Case again, into {again}?"):
            console.say(f"{done}: `minify reduce --out DIR {typed_path(folder)}` reduces its Case again, into DIR")
            from minifier.repro.report.write_reports import read_finished

            console.final(read_finished(folder)[0])
            return int(ExitCode.REDUCED)
        options = replace(options, out=again)
    with prepared(options.settings, console, interpreters) as run:
        from minifier.flow.run import minify_case

        outcome = minify_case(folder, run, options.out)
    console.final(outcome)
    return int(_EXIT_CODE[outcome.status.value])


def explain_command(folder: Path, budget: float, interpreters: Interpreters, trust: bool = False) -> int:
    """Ask what is at fault in a finished run, write its reports anew, and print its last lines.

    Raises NotTrusted as `reduce_command` does, and UsageError if the folder has no repro of a graph.
    """
    with Console() as console:
        allow_finished(folder, console, trust)
        with prepared(Settings(), console, interpreters) as run:
            from minifier.flow.explain import explain_folder

            outcome = explain_folder(folder, budget, run)
        if outcome.summary is not None and not outcome.summary.part:
            console.say("no part at fault was found: report.md has what was asked, with the answers")
        console.final(outcome)
    return int(ExitCode.REDUCED)


def allow_finished(folder: Path, console: Console, trust: bool) -> None:
    """Return if the code in the output folder of a finished run may be run.

    Raises UsageError if the folder has no repro, and NotTrusted as `ask_about` does.
    """
    check_folder(folder)
    if not (folder / "repro.py").exists():
        raise UsageError(f"{folder} has no repro: give the output folder of a run that wrote one.")
    ask_about(str(folder), foreign_code_of_run(folder), console, trust)


def ask_about(given: str, code: Sequence[str], console: Console, trust: bool) -> None:
    """Return if the code may be run: there is none of somebody else's, or the user allows it.

    `given` is the folder or bundle as the user named it. Raises NotTrusted otherwise.
    """
    if trust or not code:
        return
    reason = why_no_key()
    whose = (
        f"it cannot be told who made {given} ({reason})" if reason else f"{given} is not as your minify wrote it here"
    )
    what = f"{whose}. This would run what these files say:\n{shown(code)}"
    if not console.can_ask:
        raise NotTrusted(f"{what}\nNothing was run. If you trust whoever made it, give --trust.")
    if not console.ask(f"{what}\nRun it?"):
        raise NotTrusted(f"nothing of {given} was run. --trust runs it without this question.")


GONE, STILL_THERE, SOMETHING_ELSE = 0, 1, 125  # exit codes of `minify check`, for `git bisect run`


def check_command(repro: Path, timeout: float, interpreters: Interpreters | None = None, trust: bool = False) -> int:
    """Run the repro once, print its result, and return the exit code.

    Raises UsageError for a file that is no complete repro, and NotTrusted for a bundle or folder of somebody else,
    unless the user agrees or has agreed with `trust`. A script that the user names is run as `python` would run it.
    """
    from minifier.flow.check_repro import check_repro, script_of  # imports torch

    with Console() as console, script_of(repro) as (script, is_named):
        if script.is_file() and not is_named:
            ask_about(str(repro), foreign_code_of(script), console, trust)
        checked = check_repro(script, timeout, interpreters or Interpreters(), console, repro)
    if checked.run.failure is None:
        print("the failure is gone: the script ended well")
        return GONE
    if checked.agrees:
        print_line(f"still there: {checked.description}")
        return STILL_THERE
    told = filter(None, (f"something else happened: {checked.description}", checked.unlike, checked.run.output))
    print_error("\n".join(told))
    if checked.run.failure.type == "ModuleNotFoundError":
        print("minify: the folder of that module has to be on PYTHONPATH, if it is installed nowhere", file=sys.stderr)
    return SOMETHING_ELSE


_TEST_TIMEOUT_SECONDS = 900.0


def test_command(folder: Path, out: Path, interpreters: Interpreters, trust: bool = False) -> int:
    """Write the test into `out`, and print its path.

    Raises UsageError for a folder without a repro, or a test of this name that is there already; NoRepro if pytest does
    not call the test an expected failure; NotTrusted as `minify reduce` does.
    """
    with Console() as console:
        allow_finished(folder, console, trust)
        with prepared(Settings(verify=1), console, interpreters) as run:
            from minifier.repro.report.pytest_file import test_file_of
            from minifier.repro.report.write_reports import read_finished

            outcome, _ = read_finished(folder)
            test = test_file_of(outcome)
            path = out / test.name
            if path.exists():
                raise UsageError(f"{path} is there already: remove it, or give another folder with -o.")
            with tempfile.TemporaryDirectory(prefix="minify-") as place:
                trial = Path(place) / test.name
                _write(trial, test.text, test.beside)
                if importlib.util.find_spec("pytest") is None:
                    console.say("pytest is not installed here, so the test was not tried")
                else:
                    folders = outcome.minimal.folders if outcome.minimal is not None else ()
                    _try(trial, folders, run.ui)
            _write(path, test.text, test.beside)
    print(path)
    return int(ExitCode.REDUCED)


def _write(path: Path, text: str, beside: Mapping[str, Path]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, source in beside.items():
        (path.parent / name).parent.mkdir(exist_ok=True)
        copy_atomically(source, path.parent / name)
    write_atomically(path, text)


def _try(path: Path, folders: tuple[str, ...], ui: Ui) -> None:
    """Raise NoRepro unless pytest says of the test that it fails as expected."""
    ui.show(Progress(Phase.TESTING))
    (path.parent / "conftest.py").touch()  # whatever pytest finds above does not matter
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(path.parent), path.name]
    environment = clean_environment(path.parent, folders, ())
    output = path.with_suffix(".txt")
    with output.open("wb") as file:
        child = Child.launched(command, lambda: None, stdout=file, stderr=file, cwd=path.parent, env=environment)
    run_to_end(child, _TEST_TIMEOUT_SECONDS, ui.tick)
    said = output.read_text(errors="replace")
    if child.code != 0 or "1 xfailed" not in said:
        raise NoRepro(f"pytest does not call the test an expected failure:\n{said.strip()[-2000:]}")
