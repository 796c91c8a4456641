"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from minifier.data.failure.kinds import Aspect
from minifier.data.settings import Settings
from minifier.flow.check_program import names_of_passes, settings_of

ENVIRONMENT_PREFIX = "MINIFY"  # the environment's name of --max-probes is MINIFY_MAX_PROBES


class RealNumber(click.FloatRange):
    """A number within limits, called so where click would say `float range`."""

    name = "number"


class WholeNumber(click.IntRange):
    """An integer within limits, called a whole number."""

    name = "whole number"


def backend_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a backend, without torch."""
    from minifier.flow.known_backends import known_names

    return [name for name in known_names() if name.startswith(incomplete)]


def _passes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the last of the names of passes, which commas separate."""
    head, comma, last = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in names_of_passes() if name.startswith(last)]


_SHARED_OPTIONS = (
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        help="Output folder; must be empty or not exist. Default: minify-out/SCRIPT-N; of reduce the given folder, if "
        "a run or minifier.capture wrote it.",
    ),
    click.option(
        "--match",
        metavar="REGEX",
        help="Any failure whose message matches counts as the same failure, whatever its type and place.",
    ),
    click.option(
        "--match-log",
        metavar="REGEX",
        help="A log line or a warning during a backend call counts as a failure if it matches: a fallback to eager, "
        "say. Lines are `LEVEL logger: message`, from INFO on, if the loggers let them through.",
    ),
    click.option(
        "--timeout",
        type=RealNumber(min=0.1),
        metavar="SECONDS",
        help="Time limit of each probe, and of each backend call of the script. Default: for a probe ten times the "
        "first failing run, at least 2 s, at most 300 s; in the script five times the slowest call so far, at least "
        "120 s, and 300 s for a first call that goes on computing. Ctrl-C in a call of more than 10 s takes it for a "
        "hang.",
    ),
    click.option(
        "--memory",
        type=WholeNumber(min=64),
        metavar="MIB",
        help="Memory limit of the script and of each probe, beyond what they begin with, reserved memory included. "
        "Default: they may reserve what they like, and use four fifths of what is free.",
    ),
    click.option(
        "--compare",
        type=click.Choice(["auto", "always", "never", "strict"]),
        default="auto",
        show_default=True,
        help="Compare the results of compiled code with eager's: if nothing else failed, always, or never; strict: if "
        "nothing else failed, and large differences count even where eager itself varies as much.",
    ),
    click.option("--rtol", type=RealNumber(min=0), metavar="R", help="With --atol: how far results may differ."),
    click.option("--atol", type=RealNumber(min=0), metavar="A", help="With --rtol, likewise, absolutely."),
    click.option(
        "--ignore",
        type=click.Choice([aspect.value for aspect in Aspect]),
        multiple=True,
        metavar="ASPECT",
        help=f"What does not count as a difference; may be repeated: {', '.join(aspect.value for aspect in Aspect)}.",
    ),
    click.option(
        "--predicate",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A Python file whose `differs(compiled, eager)` decides whether results differ.",
    ),
    click.option(
        "--workers",
        type=WholeNumber(1, 64),
        metavar="N",
        help="Probes at once; the answer does not depend on it. Default: 1, or one a core where one takes over 0.2 s.",
    ),
    click.option(
        "--budget",
        type=RealNumber(min=0),
        metavar="SECONDS",
        help="Stop reducing after this time; the best so far is written and verified (exit code 3). By default the "
        "whole run has ten times what the script takes, and 180 s, of which the reduction gets 70 %.",
    ),
    click.option(
        "--max-probes", type=WholeNumber(min=0), metavar="N", help="Stop reducing after so many probes, likewise."
    ),
    click.option(
        "--passes",
        metavar="NAMES",
        shell_complete=_passes,
        help="Try only these passes, with commas between, beside `ops` and `statements` (`minify passes` lists them).",
    ),
    click.option(
        "--skip-pass",
        multiple=True,
        metavar="NAME",
        shell_complete=_passes,
        help="Leave this pass out; may be repeated.",
    ),
    click.option(
        "--verify",
        type=WholeNumber(min=1),
        default=3,
        show_default=True,
        metavar="N",
        help="In how many fresh interpreters the repro has to show the failure.",
    ),
    click.option(
        "--explain/--no-explain",
        default=True,
        show_default=True,
        help="Once the repro is verified, ask by further probes which part of the compiler is at fault, and which "
        "setting avoids the failure: for as long as the reduction took, and at least 20 s. `minify explain` does it "
        "later.",
    ),
    click.option(
        "--include-data/--no-include-data",
        default=None,
        help="Whether real values that the repro needs go into bundle.zip. They are beside the repro in any case. "
        "Default: ask; no, without a terminal.",
    ),
    click.option(
        "--bundle-private/--no-bundle-private",
        default=None,
        help="Whether bundle.zip is written if the failure needs constants in repro.py that look like secrets. "
        "Default: ask; no, without a terminal.",
    ),
    click.option("--quiet", is_flag=True, help="Say nothing but errors and the last lines."),
    click.option(
        "--verbose",
        is_flag=True,
        help="Say a line for each probe and each fallback: what was tried, and how a probe ended.",
    ),
    click.option(
        "--json",
        is_flag=True,
        help="At the end write the result to standard output, as one line: what result.json has.",
    ),
)


trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Run the code in it, whoever made it. Default: ask, unless this user's minify wrote it on this machine; "
    "without a terminal, exit code 2.",
)


def reduction_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command."""
    for option in reversed(_SHARED_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a command: the run's settings, the output folder, and the console's verbosity."""

    settings: Settings
    out: Path | None = None
    quiet: bool = False
    verbose: bool = False
    json: bool = False

    @classmethod
    def of(cls, values: dict[str, Any]) -> Options:
        """Build the options from click's values. Raises UsageError for invalid or contradictory values."""
        return cls(settings_of(values), values["out"], values["quiet"], values["verbose"], values["json"])
