"""`minify check`: is the failure of a repro still there?"""

from __future__ import annotations

import sys
from pathlib import Path

from minifier.flow.check_repro import check_repro, script_of
from minifier.flow.cli.console import Console, print_error, print_line
from minifier.flow.cli.running import ask_about
from minifier.flow.foreign_code import foreign_code_of
from minifier.process.interpreters import Interpreters

GONE, STILL_THERE, SOMETHING_ELSE = 0, 1, 125


def check_command(repro: Path, timeout: float, interpreters: Interpreters | None = None, trust: bool = False) -> int:
    """Run the repro once, print its result, and return the exit code.

    Raises UsageError for a file that is no complete repro, and NotTrusted for a bundle or folder of somebody else,
    unless the user agrees or has agreed with `trust`. A script that the user names is run as `python` would run it.
    """
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
