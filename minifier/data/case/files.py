"""Read and write the files of a Case or a run: what is opened, and marks that show who wrote them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


MARK = "mark"
_KEY_BYTES = 32


class NoKey(Exception):
    """There is no key, and none can be made; the message says why."""


def key_file() -> Path:
    """Return the path of the key in the user's data folder. Raises NoKey without a home folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):  # a relative one does not count, says the specification of this variable
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    if not os.path.isabs(data):
        raise NoKey("this user has no home folder")
    return Path(data, "minify", "key")


def _written(path: Path) -> None:
    """Write a new key, unless another process has written one by now: a link never replaces a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, temporary = tempfile.mkstemp(prefix=".key-", dir=path.parent)  # of mode 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(number)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _read(path: Path) -> bytes:
    """Return the key in the file. Raises NoKey if anybody else may know or have chosen it, and OSError."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise NoKey(f"{path} is not this user's alone; remove it")
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise NoKey(f"{path} is damaged; remove it")
    return key


@functools.cache
def _key() -> bytes | str:
    """Return the key, written at its first need, or the reason why there is none.

    It stays the same for this process and its forks, whatever a script does to the environment.
    """
    try:
        path = key_file()
        try:
            return _read(path)
        except FileNotFoundError:
            _written(path)
            return _read(path)
    except NoKey as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or 'the key'}: {error.strerror}"


def why_no_key() -> str:
    """Return why nothing can be marked, or "" if there is a key."""
    key = _key()
    return key if isinstance(key, str) else ""


def mark_of(kind: str, data: dict[str, Any], *files: bytes) -> str:
    """Return the mark of a file of this kind, for its JSON content and the content of other files; "" without a key."""
    key = _key()
    if isinstance(key, str):
        return ""
    signed = hmac.new(key, digestmod=hashlib.sha256)
    for content in (kind.encode(), json.dumps(data, sort_keys=True).encode(), *files):
        signed.update(b"%d:" % len(content))
        signed.update(content)
    return signed.hexdigest()


def _fits(mark: Any, right: str) -> bool:
    return bool(right) and isinstance(mark, str) and hmac.compare_digest(right.encode(), mark.encode(errors="replace"))


def marked(kind: str, data: dict[str, Any], *files: bytes) -> dict[str, Any]:
    """Return the JSON object with its mark, or unchanged without a key."""
    mark = mark_of(kind, data, *files)
    return {**data, MARK: mark} if mark else data


def is_made_here(kind: str, data: Any, *files: bytes) -> bool:
    """Whether the JSON object has the mark of its other fields and of these files. Without a key, none has."""
    if not isinstance(data, dict) or MARK not in data:
        return False
    rest = {name: value for name, value in data.items() if name != MARK}
    try:
        return _fits(data[MARK], mark_of(kind, rest, *files))
    except RecursionError:  # nested more deeply than anything of ours
        return False


def mark_of_repro(script: bytes, beside: Mapping[str, bytes]) -> str:
    """Return the mark of a repro, which result.json keeps: the script itself has none. "" without a key.

    `beside` are the user's files that the repro reads, by name: a backend may run what it finds there.
    """
    names = sorted(beside)
    return mark_of("repro", dict.fromkeys(names), script, *(beside[name] for name in names))


def is_own_repro(result: Any, script: bytes, beside: Mapping[str, bytes]) -> bool:
    """Whether the content of result.json has the mark of this repro."""
    return isinstance(result, dict) and _fits(result.get(MARK), mark_of_repro(script, beside))
