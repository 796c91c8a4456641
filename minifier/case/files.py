"""Open the files of a Case or a run: ordinary files of a limited size, and nothing else that may lie in a folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from minifier.errors import UsageError

MAX_TEXT_BYTES = 2**28  # of case.json, graph.json, and any other file of text; 2,000 ops take less than 2**20
MAX_TENSOR_BYTES = 2**32  # of the values that a repro reads
# A FIFO would block, a device may act on being opened, and a link may lead out of the folder.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


class NotAFile(OSError):
    """Something else than an ordinary file, or a file that is too large."""


def checked_file(path: Path, limit: int | None = None) -> int:
    """Return the size of the file in bytes. Raises OSError unless it is an ordinary file of at most `limit` bytes."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(0, f"it is {_kind(found.st_mode)}, not a file")
    if limit is not None and found.st_size > limit:
        raise NotAFile(0, f"it has {found.st_size} bytes, more than {limit}")
    return found.st_size


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Return the content of an ordinary file. Raises OSError for anything else, and for more than `limit` bytes."""
    checked_file(path, limit)
    with open(os.open(path, _FLAGS), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise NotAFile(0, f"it has more than {limit} bytes")
    return content


def read_text(path: Path, limit: int = MAX_TEXT_BYTES, errors: str = "strict") -> str:
    """Return the content of an ordinary file as text. Raises OSError as `read_bytes`, and UnicodeDecodeError."""
    return read_bytes(path, limit).decode("utf-8", errors)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a journal; none if it is missing. Raises UsageError for anything but an ordinary file."""
    try:
        return read_text(path, errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Remove it.") from None


def check_folder(folder: Path) -> None:
    """Raise UsageError if anything in the folder is neither a file nor a folder: nothing may lead out of it, or block.

    Call this ahead of all work in a folder that somebody else may have made.
    """
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            mode = (Path(place) / name).lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UsageError(
                    f"{Path(place) / name} is {_kind(mode)}: only files and folders belong there. Remove it, or put a "
                    "copy of what it stands for in its place."
                )


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for is_one, name in kinds if is_one(mode)), "something else")
