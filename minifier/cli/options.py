"""Options that several commands share, and their conversion to settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from minifier.errors import UsageError
from minifier.failure.difference import Aspect, Tolerance
from minifier.settings import Settings

_MIB = 2**20


class RealNumber(click.FloatRange):
    """A number within limits, called so where click would say `float range`."""

    name = "number"


class WholeNumber(click.IntRange):
    """An integer within limits, called a whole number."""

    name = "whole number"


_SHARED_OPTIONS = (
    click.option("--out", type=click.Path(path_type=Path), help="Output folder; must be empty or not exist."),
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
        "first failing run, at least 2 s, at most 300 s; in the script ten times the slowest call so far, at least "
        "120 s, and 600 s for a first call that goes on computing.",
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
        help="Probes at once; the answer does not depend on it. Default: 1, or one a core where one takes over 0.5 s.",
    ),
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Make the probes on a Ray cluster, one a CPU or GPU; `local` starts one of this machine's cores.",
    ),
    click.option(
        "--budget",
        type=RealNumber(min=0),
        metavar="SECONDS",
        help="Stop reducing after this time; the best so far is written and verified (exit code 3).",
    ),
    click.option(
        "--max-probes",
        type=WholeNumber(min=0),
        metavar="N",
        help="Stop reducing after so many probes, likewise.",
    ),
    click.option(
        "--passes",
        metavar="NAMES",
        help="Try only these passes, with commas between, beside that of the ops (`minify passes` lists them).",
    ),
    click.option("--skip-pass", multiple=True, metavar="NAME", help="Do not try this pass; may be repeated."),
    click.option(
        "--verify",
        type=WholeNumber(min=1),
        default=3,
        show_default=True,
        metavar="N",
        help="In how many fresh interpreters the repro has to show the failure.",
    ),
    click.option(
        "--include-data/--no-include-data",
        default=None,
        help="Whether real values that the repro needs go into bundle.zip. They are beside the repro in any case. "
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
        return cls(_settings(values), values["out"], values["quiet"], values["verbose"], values["json"])


def _settings(values: dict[str, Any]) -> Settings:
    for option in ("match", "match_log"):
        _check_pattern("--" + option.replace("_", "-"), values[option])
    memory = values["memory"]
    return Settings(
        match=values["match"],
        match_log=values["match_log"],
        timeout=values["timeout"],
        memory=memory * _MIB if memory is not None else None,
        workers=values["workers"],
        budget=values["budget"],
        max_probes=values["max_probes"],
        include_data=values["include_data"],
        compare=values["compare"],
        measure=_tolerance(values),
        verify=values["verify"],
        passes=None if values["passes"] is None else _check_passes("--passes", values["passes"].split(",")),
        skipped=_check_passes("--skip-pass", values["skip_pass"]),
        level=values.get("level", "auto"),
        silent_fallbacks=values.get("fallbacks", False),
        cluster=values["cluster"],
    )


def _check_passes(option: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the stripped names. Raises UsageError for an unknown pass."""
    from minifier.passes.table import TABLE

    known = [name for name, _ in TABLE if name != "ops"]
    chosen = tuple(filter(None, (name.strip() for name in names)))
    for name in chosen:
        if name not in known:
            similar = get_close_matches(name, known, 1)
            hint = f" Did you mean {similar[0]}?" if similar else f" There are {', '.join(known)}."
            raise UsageError(f"{option}: there is no pass {name}.{hint}")
    return chosen


def _check_pattern(option: str, pattern: str | None) -> None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{option} {pattern!r} is not a regular expression: {error}.") from None


def _tolerance(values: dict[str, Any]) -> Tolerance:
    rtol, atol, file = values["rtol"], values["atol"], values["predicate"]
    if (rtol is None) is not (atol is None):
        raise UsageError("--rtol and --atol go together: give both, or neither.")
    predicate = ""
    if file is not None and rtol is not None:
        raise UsageError("--predicate decides alone: leave out --rtol and --atol.")
    if file is not None:
        try:
            predicate = file.read_text(encoding="utf-8")
            code = compile(predicate, str(file), "exec", dont_inherit=True)
        except OSError as error:
            raise UsageError(f"--predicate {file} cannot be read: {error.strerror}.") from None
        except SyntaxError as error:
            raise UsageError(f"--predicate {file} is not valid Python: line {error.lineno}: {error.msg}.") from None
        except ValueError as error:
            raise UsageError(f"--predicate {file} is not Python source: {error}.") from None
        if "differs" not in code.co_names:
            raise UsageError(f"--predicate {file} does not define differs(compiled, eager).")
    return Tolerance(
        rtol, atol, tuple(Aspect(name) for name in values["ignore"]), predicate, values["compare"] == "strict"
    )
