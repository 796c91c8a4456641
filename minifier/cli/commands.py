"""The commands and their exit codes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from minifier import __version__
from minifier.cli.options import Options, RealNumber, WholeNumber, reduction_options
from minifier.errors import ExitCode, MachineFailed, MinifyError
from minifier.process.forked_step import FULL
from minifier.process.interpreters import Interpreters

# They would start torch's own minifier, or its debug output, in our children.
_TORCH_MINIFIER_VARIABLES = ("TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_LEVEL", "TORCH_COMPILE_DEBUG")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="minify")
def cli() -> None:
    """Reduces a failing torch.compile backend call to a short, verified, standalone repro.

    \b
    Exit codes of run and reduce:
      0  reduced, and the repro verified
      1  nothing to reduce
      2  usage error
      3  stopped early; the best so far is written and verified
      4  captured, but no standalone repro shows the failure
      5  an error of this tool
    """


def _interpreters() -> Interpreters:
    """Return the object that starts the interpreters of this command's verification."""
    interpreters: Interpreters = click.get_current_context().obj
    return interpreters


@cli.command(
    context_settings={"allow_interspersed_args": False}, short_help="Run a script, and reduce its failing backend call."
)
@reduction_options
@click.option(
    "--level",
    type=click.Choice(["auto", "source"]),
    default="auto",
    show_default=True,
    help="auto: the failing graph, or the script itself without one. source: always the script itself.",
)
@click.option(
    "--fallbacks",
    is_flag=True,
    help="A silent fallback counts as a failure: the backend catches its own exception, or leaves a graph to inductor "
    "or eager, and logs that at any level.",
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module's name, as with python -m.")
@click.option(
    "--graph",
    type=WholeNumber(min=1),
    metavar="N",
    help="Reduce the failure of the script's N-th graph, not the first.",
)
@click.option(
    "--backend",
    metavar="NAME",
    help="The backend that compiles an exported program (.pt2): its registered name, or MODULE:NAME if a module "
    "registers or holds it. aot_inductor is AOTInductor; MODULE:aot_inductor imports the module first.",
)
@click.option("--all", "every", is_flag=True, help="Reduce each failing graph in turn, into graph-N folders.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    graph: int | None,
    every: bool,
    backend: str | None,
    **values: Any,
) -> int:
    """Run SCRIPT with ARGUMENTS as python would, catch the backend call that fails, and reduce it. SCRIPT may also be a
    program that torch.export.save wrote: it is compiled with --backend and called with its own inputs.

    The script is not changed. What it prints and reads is its own. Example:

        minify run train.py --epochs 1
    """
    from minifier.capturing.script import Program
    from minifier.cli.console import ends_as_json
    from minifier.cli.running import run_command
    from minifier.workflow.interrupted_runs import Asked

    with ends_as_json(values["json"]):
        asked = Asked(Program(script, arguments, is_module), graph)
        own = {name for parameter in click.get_current_context().command.params for name in parameter.opts}
        names = [argument.partition("=")[0] for argument in arguments]
        misplaced = [name for name in names if name.startswith("--") and name in own]
        return run_command(asked, every, backend, Options.of(values), _interpreters(), misplaced)


@cli.command(short_help="Reduce a captured Case, or go on with an interrupted run.")
@reduction_options
@click.argument("case_dir", type=click.Path(path_type=Path))
def reduce(case_dir: Path, **values: Any) -> int:
    """Reduce a Case: the case/ folder of a run, captured here or elsewhere, a run that was interrupted, or what a
    process left that died within minifier.capture.

    Given a run's output folder, the run goes on in it, and no probe of its journal is made again. Examples:

    \b
        minify reduce minify-out/train-1
        minify reduce --out there case-of-somebody
    """
    from minifier.cli.console import ends_as_json
    from minifier.cli.running import reduce_command

    with ends_as_json(values["json"]):
        return reduce_command(case_dir, Options.of(values), _interpreters())


@cli.command(short_help="Run a repro, and say whether it still fails as it should.")
@click.option(
    "--timeout",
    type=RealNumber(min=1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the script.",
)
@click.argument("repro", type=click.Path(path_type=Path))
def check(repro: Path, timeout: float) -> int:
    """Run REPRO, a repro.py, the folder that holds it, or a bundle.zip, and say whether it still fails as it should.

    \b
    Exit codes, as `git bisect run` wants them:
      0    the failure is gone
      1    it is still there
      125  something else happened

    \b
    Examples:
      minify check minify-out/train-1
      git bisect run minify check /path/to/bundle.zip
    """
    from minifier.cli.checking import check_command

    return check_command(repro, timeout, _interpreters())


@cli.command(short_help="Write the reports of a finished run anew.")
@click.option(
    "--include-data/--no-include-data",
    default=None,
    help="Whether real values that the repro needs go into bundle.zip. Default: as the run was told.",
)
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path, include_data: bool | None) -> int:
    """Write report.md, report.html and bundle.zip of a finished run anew. FOLDER is its output folder. Example:

    minify report minify-out/train-1 --include-data
    """
    from minifier.cli.reporting import report_command

    return report_command(folder, include_data)


@cli.command(short_help="List the backends that torch.compile can find here.")
def backends() -> int:
    """List the backends that torch.compile can find here, from where, and with what tags.

    A backend that a module registers is found only once that module is imported. Example:

        minify backends
    """
    from minifier.cli.listing import list_backends

    return list_backends()


@cli.command()
def passes() -> int:
    """List what is tried to make a failing graph or script smaller.

    --passes and --skip-pass take these names, but for `ops`. Example:

        minify run --skip-pass sizes train.py
    """
    from minifier.cli.listing import list_passes

    return list_passes()


_ADVICE = "make room there; what is complete stays. If there is a case/ in it, `minify reduce` of the folder goes on"


def _guarded(work: Callable[[], int]) -> int:
    """Run a command; turn its exceptions into messages and exit codes."""
    for variable in _TORCH_MINIFIER_VARIABLES:
        os.environ.pop(variable, None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by some parents, which would hide how a child ended
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return work()
    except MachineFailed as error:
        print(f"minify: {error}\nminify: {_ADVICE}", file=sys.stderr)
        return int(error.exit_code)
    except MinifyError as error:
        print(f"minify: {error}", file=sys.stderr)
        if error.exit_code is not ExitCode.INTERNAL:
            return int(error.exit_code)
        return _internal(str(error))
    except SystemExit as error:  # a signal asked us to end; temporary files are already removed
        return error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        print("minify: interrupted before there was anything to write", file=sys.stderr)
        return int(ExitCode.STOPPED)
    except OSError as error:
        if error.errno not in FULL:
            return _internal(traceback.format_exc())
        print(f"minify: {error.filename or 'a file'}: {error.strerror}\nminify: {_ADVICE}", file=sys.stderr)
        return int(ExitCode.INTERNAL)
    except Exception:  # noqa: BLE001 - any other exception is this tool's fault
        return _internal(traceback.format_exc())


def _internal(trace: str) -> int:
    """Write the traceback to a new folder, to attach to a bug report."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="minify-error-"))
    (folder / "traceback.txt").write_text(trace, encoding="utf-8")
    print(
        f"minify: this is an error of minify, not of yours: {trace.strip().splitlines()[-1]}\n"
        f"minify: the traceback is in {folder}/traceback.txt; please attach it to a report",
        file=sys.stderr,
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

    `interpreters` starts the interpreters of the verification.
    """

    def work() -> int:
        try:
            status = cli.main(arguments, standalone_mode=False, prog_name="minify", obj=interpreters or Interpreters())
        except click.exceptions.Abort:
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            error.show()
            return error.exit_code
        return status if isinstance(status, int) else 0

    return _guarded(work)


def main(interpreters: Interpreters | None = None) -> None:
    """Run the command `minify`, and end this process."""
    _open_standard_files()
    status = command_line(interpreters=interpreters)
    # Destroying torch's objects one by one would take as long as importing torch.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
