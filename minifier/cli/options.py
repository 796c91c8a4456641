"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from minifier.errors import UsageError
from minifier.settings import Settings

_SHARED = (
    click.option("--out", type=click.Path(path_type=Path), help="Output folder; must be empty or not exist."),
    click.option(
        "--match",
        metavar="REGEX",
        help="Take a failure whose message matches for the one sought, whatever its type and place.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help="Time limit of each probe. Default: ten times the first failing run, at least 2 s, at most 300 s.",
    ),
    click.option(
        "--memory",
        type=click.IntRange(min=64),
        metavar="MIB",
        help="Memory limit of each probe. Default: three quarters of what is free.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1, 64),
        metavar="N",
        help="Probes at once; the answer does not depend on it. Default: 1, or one a core where compiling is slow.",
    ),
    click.option(
        "--budget",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="Stop reducing after this time; the best so far is written and verified (exit code 3).",
    ),
    click.option(
        "--max-probes",
        type=click.IntRange(min=0),
        metavar="N",
        help="Stop reducing after so many probes, likewise.",
    ),
    click.option(
        "--include-data",
        is_flag=True,
        help="Put real values into bundle.zip if the repro needs them. They are beside the repro in any case.",
    ),
    click.option("--quiet", is_flag=True, help="Say nothing but errors and the last lines."),
)


def reduction_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the shared options to a command."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def settings_from(given: dict[str, Any], script_seconds: float = 0.0) -> Settings:
    """The settings a command was given; raises UsageError for a pattern that is none."""
    import re

    if given["match"] is not None:
        try:
            re.compile(given["match"])
        except re.error as error:
            raise UsageError(f"--match {given['match']!r} is not a regular expression: {error}.") from None
    memory = given["memory"]
    return Settings(
        match=given["match"],
        timeout=given["timeout"],
        memory=memory * 2**20 if memory is not None else free_memory_share(),
        workers=given["workers"] or (os.cpu_count() or 1 if script_seconds > 15 else 1),
        budget=given["budget"],
        max_probes=given["max_probes"],
        include_data=given["include_data"],
    )


def free_memory_share() -> int | None:
    """Three quarters of the memory that is free, in bytes; None where the system does not tell, and with
    CUDA, whose address space is larger than any memory."""
    import torch

    if torch.version.cuda is not None:
        return None
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024 * 3 // 4
    except OSError:
        return None
    return None
