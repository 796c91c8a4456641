"""The temporary folder of a run, removed by the next run that finds its owner dead, which a lock tells."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minifier.process.descriptors import identity, out_of_the_way

_PREFIX = "minify-run-"
_NAME = re.compile(_PREFIX + r"\w+")
_OWNER = "owner"  # in the temporary folder: locked by the process that made the folder
_MAX_SECONDS_WITHOUT_OWNER = 60.0  # between the making of a folder and of the file that is locked


@dataclass
class TemporaryFolder:
    """A folder for all temporary files of this process and its children. `usual` is the user's temporary folder."""

    path: Path
    usual: str

    @contextlib.contextmanager
    def usual_folder(self) -> Iterator[None]:
        """Within the block, let `tempfile` use the user's own temporary folder."""
        tempfile.tempdir = self.usual
        try:
            yield
        finally:
            tempfile.tempdir = str(self.path)


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it at the end of the block.

    A script in a fork of this process leaves it; one of `tempfile.TemporaryDirectory` goes as the script ends.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def temporary_folder() -> Iterator[TemporaryFolder]:
    """Make the folder for the temporary files of this process, and remove it at the end.

    Removes the folders of dead runs first. Forks of this process use the folder, and leave it.
    """
    usual = tempfile.gettempdir()
    remove_dead(Path(usual).glob(f"{_PREFIX}*"))
    before, owner = tempfile.tempdir, os.getpid()
    folder = TemporaryFolder(Path(tempfile.mkdtemp(prefix=_PREFIX)).absolute(), usual)
    lock = _locked(folder.path)
    tempfile.tempdir = str(folder.path)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        if os.getpid() == owner:
            shutil.rmtree(folder.path, ignore_errors=True)
            release(lock)


def _locked(folder: Path) -> int:
    """Lock the file of the owner; nobody sees it before it is locked."""
    unseen = folder / "unseen"
    unseen.touch()
    number = hold(unseen)
    unseen.rename(folder / _OWNER)
    return number


def remove_dead(folders: Iterable[Path]) -> None:
    """Remove those folders that a run of this user made and did not remove before it died."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if _is_dead(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_dead(folder: Path) -> bool:
    """Whether a run of this user made the folder, and has died."""
    status = folder.lstat()
    if not _NAME.fullmatch(folder.name) or folder.is_symlink() or status.st_uid != os.geteuid():
        return False
    owner = folder / _OWNER
    if owner.is_file() and not owner.is_symlink():
        return is_free(owner)
    # It was killed between the two steps; what else has such a name has files.
    return not any(folder.iterdir()) and time.time() - status.st_mtime > _MAX_SECONDS_WITHOUT_OWNER


_POLL_SECONDS = 0.05
_held: dict[int, tuple[int, int]] = {}  # descriptors of locked files, with the identity of each


def hold(path: Path) -> int:
    """Lock the file until this process ends or calls `release` with the returned descriptor.

    Several processes may hold the same lock. Forks of this process, and programs started by it, do not
    hold the lock.
    """
    number = out_of_the_way(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    _held[number] = identity(number)
    _lock(number, fcntl.LOCK_SH)
    return number


def lock_alone(file: int, seconds: float) -> bool:
    """Lock an open file, which no other process may hold, for this process and its forks.

    Return False if another process holds the lock for so many seconds.
    """
    until = time.monotonic() + seconds
    while _lock(file, fcntl.LOCK_EX) is False:
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def release(number: int) -> None:
    """Release a lock by closing its file, unless somebody has closed the file already."""
    held = _held.pop(number)
    with contextlib.suppress(OSError):
        if identity(number) == held:
            os.close(number)


def is_held(path: Path) -> bool:
    """Whether a running process, possibly this process, holds the lock of the file."""
    return _try_lock(path) is False


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of the file; False on a file system without locks, where nobody can tell."""
    return _try_lock(path) is True


def _try_lock(path: Path) -> bool | None:
    """Return whether the file can be locked; None if it is missing, or on a file system without locks."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _lock(file, fcntl.LOCK_EX)
    finally:
        os.close(file)


def _lock(file: int, kind: int) -> bool | None:
    """Return whether the open file was locked; None on a file system without locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _release_in_fork() -> None:
    for number in list(_held):
        release(number)


os.register_at_fork(after_in_child=_release_in_fork)
