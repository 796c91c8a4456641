"""The commands and their options."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from minifier import __version__
from minifier.flow.cli.options import (
    ENVIRONMENT_PREFIX,
    Options,
    RealNumber,
    WholeNumber,
    backend_names,
    reduction_options,
    trust_option,
)
from minifier.flow.prepare import refuse_older_torch
from minifier.process.interpreters import Interpreters


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a script's name in the place of a command is answered with the command that takes it."""
        given = Path(args[0])
        if args[0] not in self.commands and (given.suffix in (".py", ".pt2") or given.is_file()):
            ctx.fail(f"{args[0]} is no command. To find what fails in it: minify run {shlex.join(args)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="minify")
def cli() -> None:
    """Reduces a failing torch.compile backend call to a short, verified, standalone repro.

    \b
    Exit codes of run and reduce:
      0  reduced, and the repro verified
      1  nothing to reduce
      2  usage error
      3  stopped early; the best so far is written, and verified unless Ctrl-C ended that
      4  captured, but no standalone repro shows the failure
      5  an error of this tool
    130  Ctrl-C twice, or before there was anything to write
    """


def _interpreters() -> Interpreters:
    """Return the object that starts the interpreters of this command's verification."""
    interpreters: Interpreters = click.get_current_context().obj
    return interpreters


def _seconds(*names: str, default: float, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option for a number of seconds."""
    kind = RealNumber(min=1)
    return click.option(*names, type=kind, default=default, show_default=True, metavar="SECONDS", help=help)


_import_option = click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Import the module first, which registers the backend of --backend. May be given several times.",
)


@cli.command(
    context_settings={"allow_interspersed_args": False, "auto_envvar_prefix": ENVIRONMENT_PREFIX},
    short_help="Run a script, and reduce its failing backend call.",
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
    shell_complete=backend_names,
    help="The backend that compiles, whatever the script says: its registered name, or MODULE:NAME if a module "
    "registers or holds it. A script that compiles nothing has the modules compiled that it calls. Exported programs "
    "(.pt2) need it; for these, aot_inductor is AOTInductor.",
)
@_import_option
@click.option("--all", "every", is_flag=True, help="Reduce each failing graph in turn, into graph-N folders.")
@click.argument("script", shell_complete=lambda _context, _parameter, typed: [CompletionItem(typed, type="file")])
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(script: str, arguments: tuple[str, ...], **values: Any) -> int:
    """Run SCRIPT with ARGUMENTS as python would, catch the backend call that fails, and reduce it. SCRIPT may also be a
    program that torch.export.save wrote: it is compiled with --backend and called with its own inputs.

    The script is not changed. What it prints and reads is its own. Example:

        minify run train.py --epochs 1
    """
    from minifier.capturing.script import Program
    from minifier.flow.cli.running import ends_as_json, run_command
    from minifier.flow.folders import Asked

    with ends_as_json(values["json"]):
        backend, modules = values["backend"] or "", values["modules"]
        asked = Asked(
            Program(script, arguments, values["is_module"], backend=backend, modules=modules), values["graph"]
        )
        own = {name for parameter in click.get_current_context().command.params for name in parameter.opts}
        names = [argument.partition("=")[0] for argument in arguments]
        misplaced = [name for name in names if name.startswith("--") and name in own]
        return run_command(asked, values["every"], Options.of(values), _interpreters(), misplaced)


@cli.command(
    context_settings={"auto_envvar_prefix": ENVIRONMENT_PREFIX},
    short_help="Reduce a captured Case, or go on with an interrupted run.",
)
@reduction_options
@trust_option
@click.argument("case_dir", type=click.Path(path_type=Path))
def reduce(case_dir: Path, trust: bool, **values: Any) -> int:
    """Reduce a Case: the case/ folder of a run, captured here or elsewhere, a run that was interrupted, or what a
    process left that died within minifier.capture.

    Given a run's output folder, the run goes on in it, and no probe of its journal is made again. A finished run is
    reduced again only into another folder. Examples:

    \b
        minify reduce minify-out/train-1
        minify reduce --out there case-of-somebody
    """
    from minifier.flow.cli.running import ends_as_json, reduce_command

    with ends_as_json(values["json"]):
        return reduce_command(case_dir, Options.of(values), _interpreters(), trust)


@cli.command(short_help="Run a repro, and say whether it still fails as it should.")
@_seconds("--timeout", default=600.0, help="Time limit of the script.")
@trust_option
@click.argument("repro", type=click.Path(path_type=Path))
def check(repro: Path, timeout: float, trust: bool) -> int:
    """Run REPRO, a repro.py, the folder that holds it, or a bundle.zip, and say whether it still fails as it should.

    \b
    Exit codes, as `git bisect run` wants them:
      0    the failure is gone
      1    it is still there
      125  something else happened
      128  nothing was judged: an option or a file is at fault, somebody else made it, torch is too old, or minify
           failed; git stops there

    \b
    Examples:
      minify check minify-out/train-1
      git bisect run minify check --trust /path/to/bundle.zip
    """
    refuse_older_torch()
    from minifier.flow.cli.running import check_command

    return check_command(repro, timeout, _interpreters(), trust)


@cli.command(short_help="Ask what of the compiler is at fault in a finished run.")
@_seconds("--budget", default=600.0, help="Ask no more after this time.")
@trust_option
@click.argument("folder", type=click.Path(path_type=Path))
def explain(folder: Path, budget: float, trust: bool) -> int:
    """Ask which part of the compiler a finished run's failure takes, and what avoids it; write the reports anew.

    FOLDER is its output folder. A run asks by itself, unless --no-explain is given, but not as long. Each answer is a
    probe of the reduced program; a line that avoids the failure is shown only if the repro passes with it in a fresh
    interpreter. Example:

        minify explain minify-out/train-1
    """
    from minifier.flow.cli.running import explain_command

    return explain_command(folder, budget, _interpreters(), trust)


@cli.command("test", short_help="Write the repro of a finished run as a test for pytest.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("tests"),
    show_default=True,
    help="The folder that gets the test.",
)
@trust_option
@click.argument("folder", type=click.Path(path_type=Path))
def test_(folder: Path, out: Path, trust: bool) -> int:
    """Write the repro of a finished run as a test that is expected to fail, until the failure is gone.

    FOLDER is the output folder of the run. The test runs in pytest's process if it can: not after a death, a hang or
    settings of torch, nor if the repro reads files; then it starts an interpreter. pytest runs it once, and has to call
    it an expected failure. Example:

        minify test minify-out/train-1 -o tests
    """
    from minifier.flow.cli.running import test_command

    return test_command(folder, out, _interpreters(), trust)


@cli.command(short_help="Write the reports of a finished run anew.")
@click.option(
    "--include-data/--no-include-data",
    default=None,
    help="Whether real values that the repro needs go into bundle.zip. Default: as the run was told.",
)
@click.option(
    "--bundle-private/--no-bundle-private",
    default=None,
    help="Whether bundle.zip is written if constants in repro.py look like secrets. Default: as the run was told.",
)
@click.option(
    "--show-private",
    is_flag=True,
    help="Say what was taken out of the files: kind, file, and the first two characters.",
)
@click.option(
    "--github",
    is_flag=True,
    help="Write issue.md too, a report that an issue on GitHub can hold, and print the command that files it.",
)
@click.argument("folder", type=click.Path(path_type=Path))
def report(
    folder: Path, include_data: bool | None, bundle_private: bool | None, show_private: bool, github: bool
) -> int:
    """Write result.json, report.md, report.html and bundle.zip of a finished run anew. FOLDER is its output folder.
    Examples:

    \b
        minify report minify-out/train-1 --include-data
        minify report minify-out/train-1 --github
    """
    from minifier.flow.cli.reporting import report_command

    return report_command(folder, include_data, bundle_private, show_private, github)


@cli.command(short_help="Print the last lines of a finished run again.")
@click.argument("folder", type=click.Path(path_type=Path))
def show(folder: Path) -> int:
    """Print what a finished run printed last: what failed, where, how small it is, the repro. FOLDER is its folder.
    Example:

        minify show minify-out/train-1
    """
    from minifier.flow.cli.reporting import show_command

    return show_command(folder)


@cli.command("list", short_help="List the output folders of earlier runs.")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
def list_(folders: tuple[Path, ...]) -> None:
    """List the runs in FOLDERS, by default minify-out: how each ended, what failed, from how many ops to how many."""
    from minifier.flow.cli.listing import list_command

    list_command(folders)


@cli.command(short_help="List the backends that torch.compile can find here.")
def backends() -> None:
    """List the backends that torch.compile can find here, from where, and with what tags.

    A backend that a module registers is found only once that module is imported. Example:

        minify backends
    """
    from minifier.flow.cli.listing import list_backends

    list_backends()


@cli.command(short_help="Tell what works on this machine with this torch.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def doctor(as_json: bool) -> int:
    """Tell what works on this machine with this torch, and what is lost where something is missing."""
    from minifier.flow.prepare import refuse_without_torch

    refuse_without_torch()
    from minifier.flow.cli.listing import print_findings

    return print_findings(as_json)


def _sources(context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sources, of which `programs DIR` takes two words; with --list, list them, and end."""
    rest = iter(words)
    sources = tuple(f"{word} {next(rest, '')}" if word == "programs" else word for word in rest)
    if context.params.get("is_listing") and not context.resilient_parsing:
        from minifier.flow.prepare import import_with_torch

        import_with_torch("minifier.flow.cli.listing").list_sources(sources)
        context.exit()
    return sources


@cli.command(short_help="Run many small programs through a backend, and reduce each distinct failure.")
@click.option(
    "--backend",
    required=True,
    metavar="NAME",
    shell_complete=backend_names,
    help="The backend: its registered name, or MODULE:NAME.",
)
@_import_option
@click.option(
    "--list", "is_listing", is_flag=True, is_eager=True, help="List SOURCES, or the scripts of `programs DIR`, and end."
)
@click.option("--only", default="", metavar="REGEX", help="Programs whose names have this in them.")
@click.option("--dtypes", default="float32", show_default=True, metavar="LIST", help="Dtypes, with commas between.")
@click.option(
    "--samples",
    type=WholeNumber(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Samples of each operator or module and dtype, at most.",
)
@click.option("--training", is_flag=True, help="With a backward pass.")
@click.option("--dynamic", is_flag=True, help="With sizes that Dynamo makes dynamic, by torch.compile(dynamic=True).")
@click.option(
    "--unsupported",
    metavar="REGEX",
    help="An exception whose type or message matches says that the backend does not support the program: no failure.",
)
@_seconds("--time", "seconds", default=600.0, help="Begin nothing new after this time.")
@_seconds("--timeout", default=60.0, help="Time limit of a program; of a script, of each backend call.")
@click.option("--workers", type=WholeNumber(1, 64), metavar="N", help="Programs at once. Default: one a core.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run it on a Ray cluster, a program for each CPU at once; `local` starts one of this machine's cores.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Output folder: empty, new, or that of a hunt which goes on. Default: minify-out/hunt-NAME-N.",
)
@click.option(
    "--known",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Failures that are known, a TOML file or an earlier hunt's folder: only another one makes the exit code 1.",
)
@click.option("--write-known", is_flag=True, help="Write the failures into the file of --known.")
@click.option("--strict", is_flag=True, help="A known failure that is gone makes the exit code 1 too.")
@click.option("--quiet", is_flag=True, help="Print the last lines alone.")
@click.argument("sources", nargs=-1, is_eager=True, callback=_sources)
def hunt(**values: Any) -> int:
    """Run the programs of SOURCES through a backend, and end with a page: what works, what does not, and a verified
    repro of each distinct failure.

    SOURCES are names that --list shows: ops, the default: torch's operators on samples of torch's own tests; modules:
    those of torch.nn; models: the architectures of transformers; compose: random programs of operators, until the time
    is up; or of the entry points minify_hunt_sources. MODULE:NAME is a function that yields (name, callable, args,
    kwargs). `programs DIR` are the scripts of a folder, each as `minify run` runs it. Examples:

    \b
        minify hunt --backend mybackend --import mypackage
        minify hunt --backend mybackend --import mypackage my_models:programs
        minify hunt --backend mybackend --import mypackage programs /tmp/torchfuzz
    """
    from minifier.flow.cli.hunting import hunt_command

    return hunt_command(values, _interpreters())


@cli.command()
def passes() -> None:
    """List what is tried to make a failing graph or script smaller.

    --passes and --skip-pass take these names, but for `ops` and `statements`. Example:

        minify run --skip-pass sizes train.py
    """
    from minifier.flow.cli.listing import list_passes

    list_passes()
