"""Keep private data out of shared files: paths, names of users and machines, secrets, the script's source."""

from __future__ import annotations

import contextlib
import functools
import getpass
import json
import os
import re
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from minifier.case.store import write_atomically
from minifier.case.variables import is_secret

_FILE = re.compile(r'(?P<head>[ |+]*File \\?")(?P<path>[^"\n\\]+)(?P<tail>\\?", line \d+.*)')
_ABSOLUTE = re.compile(r"(?<![\w.:/<>~-])(?:/[\w.@+<>-]+)+((?:/[\w.@+<>-]+){2})")
PRIVATE = "private.json"
_noted: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("noted", default=())
_MIN_SECRET_CHARS = 6
_MIN_NAME_CHARS = 3
# Names of users and machines that are not private, and occur in ordinary sentences.
_GENERIC = frozenset(
    {"root", "user", "admin", "ubuntu", "debian", "runner", "jenkins", "docker", "localhost", "nobody"}
)
# Fields of a Case with the script's source or location.
_OF_SCRIPT = (("script", "path"), ("script", "folders"), ("backend", "folders"))


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return the folders of packages and of the standard library."""
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")))


def without_private_paths(text: str, folders: Iterable[str] = ()) -> str:
    """Shorten the folders of packages, interpreter, user and run in the text.

    `folders` are the script's own; relative ones are not private.
    """
    paths = sysconfig.get_paths()
    known = [
        (paths["purelib"], "<site-packages>"),
        (paths["platlib"], "<site-packages>"),
        (paths["stdlib"], "<python>"),
        (sys.prefix, "<environment>"),
        (os.getcwd(), "."),
        *((entry, "<path>") for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)),
        *((folder, "<script>") for folder in folders),
        (str(Path.home()), "~"),
    ]
    text = re.sub(r"[^\s\"']*/minify-verify-\w+/empty/", "", text)
    for folder, name in sorted(known, key=lambda pair: -len(pair[0])):
        if len(folder) > 1 and os.path.isabs(folder):
            text = re.sub(rf"(?<![\w.-]){re.escape(folder.rstrip('/'))}(?![\w.-])", name, text)
    return text


def without_secrets(text: str) -> str:
    """Replace values of secret environment variables and the names of user and machine in the text.

    Any other absolute path is cut to its last two components.
    """
    for value in _secrets():
        text = text.replace(value, "<secret>")
    for name, placeholder in _names():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", placeholder, text)
    text = re.sub(r"/(home|Users)/[^/\s\"']+", r"/\1/<user>", text)
    return _ABSOLUTE.sub(r"<path>\1", text)


def _secrets() -> list[str]:
    secrets = [value for name, value in os.environ.items() if is_secret(name) and len(value) >= _MIN_SECRET_CHARS]
    return sorted(secrets, key=len, reverse=True)


def note_private(folder: Path) -> None:
    """Write this machine's private names next to a captured Case, which may be reduced on another machine.

    The file goes into no bundle.
    """
    write_atomically(folder / PRIVATE, json.dumps(_names()) + "\n")


@contextlib.contextmanager
def private_as_noted(folder: Path) -> Iterator[None]:
    """Inside the context, the names noted in this folder are private, too."""
    try:
        pairs = json.loads((folder / PRIVATE).read_text("utf-8"))
        noted = tuple((str(name), str(placeholder)) for name, placeholder in pairs)
    except (OSError, ValueError, TypeError):  # captured on this machine
        noted = ()
    token = _noted.set(noted)
    try:
        yield
    finally:
        _noted.reset(token)


def _names() -> list[tuple[str, str]]:
    machine = socket.gethostname()
    names = [(machine, "<host>"), (machine.partition(".")[0], "<host>"), (_user(), "<user>")]
    names += _noted.get()
    return [pair for pair in names if len(pair[0]) >= _MIN_NAME_CHARS and pair[0].lower() not in _GENERIC]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, in a container for example
        return ""


def without_source(trace: str) -> str:
    """Return the traceback with source lines of installed packages, the standard library and repros only."""
    lines, public = [], True
    for line in trace.splitlines():
        frame = _FILE.match(line)
        if frame is not None:
            public = _is_public(frame["path"])
        if frame is not None or public or not line.startswith(("    ", "  |     ", "  +     ")):
            lines.append(line)
    return "\n".join(lines)


def _is_public(path: str) -> bool:
    if path.startswith("<"):
        return not path.startswith(("<script>", "<ipython-input"))
    installed = any(path.startswith(f"{folder}/") for folder in _installed())
    return installed or "site-packages" in path or "/minify-verify-" in path or Path(path).name == "repro.py"


def shareable(text: str, folders: Iterable[str] = ()) -> str:
    """Return prose or a traceback without private data."""
    return without_secrets(without_private_paths(without_source(text), folders))


def shareable_json(text: str, folders: Iterable[str]) -> str:
    """Return JSON with private data removed from all strings. Field names stay."""
    return json.dumps(_changed(json.loads(text), lambda value: shareable(value, folders)), indent=1)


def shareable_graph(text: str, folders: Iterable[str]) -> str:
    """Return graph.json without private data and without its nodes' lines of the script."""
    data = json.loads(text)
    for holder in _dictionaries(data):
        if "target" in holder:
            holder.pop("source", None)
    return shareable_json(json.dumps(data), folders)


def shareable_case(text: str, folders: Iterable[str], definitions: str) -> str:
    """Return case.json without private data, and without the script except for these definitions."""
    data = json.loads(text)
    for section, field in _OF_SCRIPT:
        data[section].pop(field, None)
    data.pop("definitions", None)
    public: dict[str, Any] = json.loads(shareable_json(json.dumps(data), folders))
    if definitions:
        public["definitions"] = without_private_paths(definitions, folders)
    return json.dumps(public, indent=1)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _changed(item, change) for key, item in value.items()}
    return [_changed(item, change) for item in value] if isinstance(value, list) else value


def _dictionaries(value: Any) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dictionaries(item)
