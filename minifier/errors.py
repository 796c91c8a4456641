"""Errors that end a run, each with the exit code that the command line documents."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the command; docs/reference/command-line.md explains them."""

    REDUCED = 0
    NOTHING = 1
    USAGE = 2
    STOPPED = 3
    NO_REPRO = 4
    INTERNAL = 5


class MinifyError(Exception):
    """A message for the user, which names the fault, the file or op, and the next step to take."""

    exit_code = ExitCode.INTERNAL


class MachineFailed(MinifyError):
    """The machine, not this tool, is at fault: no space is left on a disk, say."""


class ToolFailed(MinifyError):
    """This tool is at fault; the message is a traceback."""


class UsageError(MinifyError):
    """The input is at fault: an option, a file, a folder, or the installed torch."""

    exit_code = ExitCode.USAGE


class NothingToReduce(MinifyError):
    """No failure of a backend or of torch.compile is left to reduce."""

    exit_code = ExitCode.NOTHING


class NoRepro(MinifyError):
    """No standalone script shows the captured failure."""

    exit_code = ExitCode.NO_REPRO


class OtherMessage(NoRepro):
    """The captured graph raised the same exception in the same function, with another message."""


class StoppedEarly(MinifyError):
    """An interrupt ended the run before there was a verified repro."""

    exit_code = ExitCode.STOPPED


class CannotSave(MinifyError):
    """A value of the user's has no readable form on disk; the message says which value, and where."""

    exit_code = ExitCode.NO_REPRO
