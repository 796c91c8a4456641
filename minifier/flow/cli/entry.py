"""The entry point of the command `minify`: how its errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from minifier.errors import ExitCode, MachineFailed, MinifyError
from minifier.flow.cli.commands import cli
from minifier.flow.cli.console import print_error
from minifier.process.interpreters import Interpreters
from minifier.process.interrupts import end_by_signals
from minifier.process.machine import machine_failure

# They would start torch's own minifier, or its debug output, in our children.
_TORCH_MINIFIER_VARIABLES = ("TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_LEVEL", "TORCH_COMPILE_DEBUG")


def _told(error: BaseException) -> int:
    """Print the error that ended a command, and what to do about it; return the exit code."""
    if isinstance(error, SystemExit):  # a signal asked us to end; temporary files are already removed
        if error.code == 128 + signal.SIGTERM:
            print_error(
                "minify: ended by SIGTERM. If `minify list` shows the run, `minify reduce FOLDER` goes on with it"
            )
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt | click.exceptions.Abort):
        print("minify: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    failure = error if isinstance(error, MinifyError) else machine_failure(error)
    if failure is None:  # not the machine's fault either
        return _internal("".join(traceback.format_exception(error)))
    print_error(f"minify: {failure}")
    if isinstance(failure, MachineFailed):
        print_error(f"minify: {failure.advice}")
    elif failure.exit_code is ExitCode.INTERNAL:
        return _internal(str(failure))
    return int(failure.exit_code)


def _internal(trace: str) -> int:
    """Write the traceback to a new folder, to attach to a bug report."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="minify-error-"))
    (folder / "traceback.txt").write_text(trace, encoding="utf-8")
    print_error(
        f"minify: this is an error of minify, not of yours: {trace.strip().splitlines()[-1]}\n"
        f"minify: the traceback is in {folder}/traceback.txt; please attach it to a report"
    )
    return int(ExitCode.INTERNAL)


def _open_standard_files() -> None:
    """Open the null device for each standard stream with which the process was not started."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is `number`
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115 - open as long as the process
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115


def command_line(arguments: Sequence[str] | None = None, interpreters: Interpreters | None = None) -> int:
    """Run `minify` with these arguments, by default the arguments of this process; return the exit code.

    `interpreters` starts the interpreters of the verification. Any error of `minify check` ends with 128 or more: `git
    bisect run` stops there, and would take a smaller code for a failing commit.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for variable in _TORCH_MINIFIER_VARIABLES:
        os.environ.pop(variable, None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by some parents, which would hide how a child ended
    end_by_signals()
    try:
        status = cli.main(arguments, standalone_mode=False, prog_name="minify", obj=interpreters or Interpreters())
        return status if isinstance(status, int) else 0
    except BaseException as error:  # noqa: BLE001 - each is told
        code = _told(error)
    return max(code, ExitCode.NO_VERDICT) if arguments[:1] == ["check"] else code


def main(interpreters: Interpreters | None = None) -> None:
    """Run the command `minify`, and end this process."""
    _open_standard_files()
    status = command_line(interpreters=interpreters)
    # Destroying torch's objects one by one would take as long as importing torch.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
