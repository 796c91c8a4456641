"""Errors that end a run, each with the exit code that the command line documents."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the command's exit status says; docs/reference/command-line.md explains each."""

    REDUCED = 0
    NOTHING = 1
    USAGE = 2
    STOPPED = 3
    NO_REPRO = 4
    INTERNAL = 5


class MinifyError(Exception):
    """A message for the user: what happened, on which file or op, and what to do next."""

    exit_code = ExitCode.INTERNAL


class MachineFailed(MinifyError):
    """The machine, not this tool, is at fault: no space is left on a disk, say."""


class ToolFailed(MinifyError):
    """This tool is at fault; the message is a traceback."""


class UsageError(MinifyError):
    """The command was given something it cannot work on."""

    exit_code = ExitCode.USAGE


class NothingToReduce(MinifyError):
    """No failure of a backend or of torch.compile is left to reduce."""

    exit_code = ExitCode.NOTHING


class NoRepro(MinifyError):
    """The failure was captured, but no standalone script shows it."""

    exit_code = ExitCode.NO_REPRO


class OtherMessage(NoRepro):
    """The captured graph raised the same exception in the same function, with another message."""


class StoppedEarly(MinifyError):
    """An interrupt ended the run before it had a verified repro."""

    exit_code = ExitCode.STOPPED


class CannotSave(MinifyError):
    """A value of the user's that has no readable form on disk; says which and where."""

    exit_code = ExitCode.NO_REPRO
