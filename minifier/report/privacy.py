"""Keeps what is private out of what is handed on: paths, names of people and machines, secrets, the script's source."""

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
_SHORTEST_SECRET = 6
_SHORTEST_NAME = 3
# Names of users and machines that say nothing, and stand in many a sentence.
_GENERIC = frozenset(
    {"root", "user", "admin", "ubuntu", "debian", "runner", "jenkins", "docker", "localhost", "nobody"}
)
# Fields of a Case that repeat what the script says, or say where it lies.
_OF_SCRIPT = (("script", "path"), ("script", "folders"), ("backend", "folders"))


@functools.cache
def _installed() -> tuple[str, ...]:
    """Where packages and the standard library are."""
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")))


def without_private_paths(text: str, folders: Iterable[str] = ()) -> str:
    """The text with the folders of packages, of the interpreter, of the user and of this run shortened;
    `folders` are more of them, the script's own. A relative one says nothing."""
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
    """The text without values of environment variables that are called secrets, without the names of the user and of
    the machine, and with the last two parts alone of an absolute path that is left."""
    for value in _secrets():
        text = text.replace(value, "<secret>")
    for name, stands_for in _names():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", stands_for, text)
    text = re.sub(r"/(home|Users)/[^/\s\"']+", r"/\1/<user>", text)
    return _ABSOLUTE.sub(r"<path>\1", text)


def _secrets() -> list[str]:
    found = [value for name, value in os.environ.items() if is_secret(name) and len(value) >= _SHORTEST_SECRET]
    return sorted(found, key=len, reverse=True)


def note_private(folder: Path) -> None:
    """Writes down beside a Case what is private on the machine where it was captured, as it may be reduced on another;
    the file goes into no bundle."""
    write_atomically(folder / PRIVATE, json.dumps(_names()) + "\n")


@contextlib.contextmanager
def private_as_noted(folder: Path) -> Iterator[None]:
    """Within it, what was noted there is private as well."""
    try:
        noted = tuple((str(name), str(shown)) for name, shown in json.loads((folder / PRIVATE).read_text("utf-8")))
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
    return [(name, shown) for name, shown in names if len(name) >= _SHORTEST_NAME and name.lower() not in _GENERIC]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user: in a container, say
        return ""


def without_source(trace: str) -> str:
    """The traceback without lines of source that are not of an installed package, the standard library, or a repro."""
    lines, kept, public = trace.splitlines(), [], True
    for line in lines:
        found = _FILE.match(line)
        if found is not None:
            public = _is_public(found["path"])
            kept.append(line)
        elif public or not line.startswith(("    ", "  |     ", "  +     ")):
            kept.append(line)
    return "\n".join(kept)


def _is_public(path: str) -> bool:
    if path.startswith("<"):
        return not path.startswith(("<script>", "<ipython-input"))
    installed = any(path.startswith(f"{folder}/") for folder in _installed())
    return installed or "site-packages" in path or "/minify-verify-" in path or Path(path).name == "repro.py"


def shareable(text: str, folders: Iterable[str] = ()) -> str:
    """Prose or a traceback as it may be handed on."""
    return without_secrets(without_private_paths(without_source(text), folders))


def shareable_json(text: str, folders: Iterable[str]) -> str:
    """The same for all strings of a file of JSON; names of fields stay."""
    return json.dumps(_changed(json.loads(text), lambda value: shareable(value, folders)), indent=1)


def shareable_graph(text: str, folders: Iterable[str]) -> str:
    """graph.json without the lines of the script that its nodes come from."""
    data = json.loads(text)
    for holder in _dictionaries(data):
        if "target" in holder:
            holder.pop("source", None)
    return shareable_json(json.dumps(data), folders)


def shareable_case(text: str, folders: Iterable[str], definitions: str) -> str:
    """case.json without where the script lies, and with no more of its source than these definitions."""
    data = json.loads(text)
    for part, field in _OF_SCRIPT:
        data[part].pop(field, None)
    data.pop("definitions", None)
    made: dict[str, Any] = json.loads(shareable_json(json.dumps(data), folders))
    if definitions:
        made["definitions"] = without_private_paths(definitions, folders)
    return json.dumps(made, indent=1)


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
