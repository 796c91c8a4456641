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
    NO_VERDICT = 128
    INTERRUPTED = 130


class MinifyError(Exception):
    """A message for the user, which names the fault, the file or op, and the next step to take."""

    exit_code = ExitCode.INTERNAL


class MachineFailed(MinifyError):
    """The machine, not this tool, is at fault: no space is left on a disk, say. `advice` is what to do."""

    advice = "make room there; what is complete stays. If there is a case/ in it, `minify reduce` of the folder goes on"


class FolderRemoved(MachineFailed):
    """Somebody removed a folder that this tool was using."""

    advice = "run it again, with folders that stay (--out, TMPDIR)"


class LimitReached(MachineFailed):
    """The system gave no more memory, files or processes, or killed a process for lack of memory."""

    advice = (
        "see `ulimit -a`, the container's limits and `dmesg`. If there is a case/ in the output folder, "
        "`minify reduce` of the folder goes on"
    )


def said_of_trace(trace: str) -> str:
    """Return the last line of a traceback of this tool, as the reason for the end of a step."""
    return f"an error of minify: {(trace.strip() or 'unknown').splitlines()[-1]}"


class ToolFailed(MinifyError):
    """This tool is at fault; the message is a traceback."""


class UsageError(MinifyError):
    """The input is at fault: an option, a file, a folder, or the installed torch."""

    exit_code = ExitCode.USAGE


class NotTrusted(MinifyError):
    """The code in a folder or a bundle is somebody else's, and the user has not allowed it to run."""

    exit_code = ExitCode.USAGE


class NothingToReduce(MinifyError):
    """No failure of a backend or of torch.compile is left to reduce."""

    exit_code = ExitCode.NOTHING
    cause = "nothing-failed"


class NothingCompiled(NothingToReduce):
    """The script ended without a graph for any backend."""

    cause = "nothing-compiled"


class FailsByItself(NothingToReduce):
    """The program fails in the same way without torch.compile, or the graph without the backend."""

    cause = "fails-by-itself"


class FailsUnobserved(NothingToReduce):
    """The program fails when Python runs it, and ends well under this tool's hooks."""

    cause = "fails-unobserved"


class NoSuchBackend(NothingToReduce):
    """The name of the backend is unknown to torch."""

    cause = "no-such-backend"


class NoRepro(MinifyError):
    """No standalone script shows the captured failure."""

    exit_code = ExitCode.NO_REPRO


class OtherMessage(NoRepro):
    """The captured graph raised the same exception in the same function, with another message."""


class StoppedEarly(MinifyError):
    """An interrupt ended the run before there was a verified repro."""

    exit_code = ExitCode.STOPPED


class StoppedAtOnce(StoppedEarly):
    """A second Ctrl-C ended the run. Nothing is done with what was reached."""

    exit_code = ExitCode.INTERRUPTED


class Interrupted(StoppedEarly):
    """Ctrl-C ended the run before there was a failure. The exit code is that of Python after Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED


class CannotSave(MinifyError):
    """A value of the user's has no readable form on disk; the message says which value, and where."""

    exit_code = ExitCode.NO_REPRO
