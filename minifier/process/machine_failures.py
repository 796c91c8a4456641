"""Exceptions that are the machine's fault: a full disk, a removed folder, a limit on files, processes or memory."""

from __future__ import annotations

import errno
import os

from minifier.errors import FolderRemoved, LimitReached, MachineFailed

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)  # errors of a disk that takes no more
_SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def machine_failure(error: BaseException) -> MachineFailed | None:
    """Return the error as the machine's, with what to do about it; None if it may be this tool's."""
    if isinstance(error, MemoryError):
        return LimitReached("there is no more memory")
    if not isinstance(error, OSError):
        return None
    if error.errno in _FULL:
        return MachineFailed(f"a file cannot be written to: {error}")
    if error.errno in _SCARCE:
        return LimitReached(f"the system gives no more: {error}")
    if isinstance(error, FileNotFoundError):
        # safetensors names the file in its message only
        folder = os.path.dirname(error.filename if isinstance(error.filename, str) else str(error).rpartition(": ")[2])
        if os.path.isabs(folder) and not os.path.isdir(folder):
            return FolderRemoved(f"{folder} was removed while it was in use")
    return None
