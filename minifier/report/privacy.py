"""Keeps what is private out of what is handed on: paths, names of people and machines, secrets, the script's source."""

from __future__ import annotations

import functools
import getpass
import json
import os
import re
import socket
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_FILE = re.compile(r'(?P<head>[ |+]*File \\?")(?P<path>[^"\n\\]+)(?P<tail>\\?", line \d+.*)')
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|AUTH|PRIVATE", re.IGNORECASE)
_SHORTEST_SECRET = 6
_SHORTEST_NAME = 3
# Names of users and machines that say nothing, and stand in many a sentence.
_GENERIC = frozenset(
    {"root", "user", "admin", "ubuntu", "debian", "runner", "jenkins", "docker", "localhost", "nobody"}
)
# Fields of a Case that repeat what the script says, or say where it lies.
_OF_SCRIPT = (("script", "path"), ("script", "folders"), ("backend", "folders"))


@functools.cache
def _places() -> tuple[tuple[str, str], ...]:
    return (
        (sysconfig.get_paths()["purelib"], "<site-packages>"),
        (sysconfig.get_paths()["stdlib"], "<python>"),
        (sys.prefix, "<environment>"),
    )


def without_private_paths(text: str, folders: Iterable[str] = ()) -> str:
    """The text with the folders of packages, of the interpreter, of the user and of this run shortened;
    `folders` are more of them, the script's own."""
    known = [
        *_places(),
        (os.getcwd(), "."),
        *((entry, "<path>") for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry),
        *((folder, "<script>") for folder in folders),
        (str(Path.home()), "~"),
    ]
    text = re.sub(r"[^\s\"']*/minify-verify-\w+/empty/", "", text)
    for folder, name in sorted(known, key=lambda pair: -len(pair[0])):
        if len(folder) > 1:
            text = re.sub(rf"{re.escape(folder.rstrip('/'))}(?![\w.-])", name, text)
    # Whatever absolute path is left, of a package installed from its sources for instance: file and folder.
    return re.sub(r'(File \\?")/[^"\\]*/([^/"\\]+/[^/"\\]+)', r"\1<path>/\2", text)


def without_secrets(text: str) -> str:
    """The text without values of environment variables that are called secrets, and without the names of the user and
    of the machine."""
    for value in _secrets():
        text = text.replace(value, "<secret>")
    for name, stands_for in _names():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", stands_for, text)
    return re.sub(r"/(home|Users)/[^/\s\"']+", r"/\1/<user>", text)


def _secrets() -> list[str]:
    found = [value for name, value in os.environ.items() if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET]
    return sorted(found, key=len, reverse=True)


def _names() -> list[tuple[str, str]]:
    machine = socket.gethostname()
    names = [(machine, "<host>"), (machine.partition(".")[0], "<host>"), (_user(), "<user>")]
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
        return True
    installed = any(path.startswith(f"{folder}/") for folder, _ in _places())
    return installed or "site-packages" in path or "/minify-verify-" in path or Path(path).name == "repro.py"


def shareable(text: str, folders: Iterable[str] = ()) -> str:
    """Prose or a traceback as it may be handed on."""
    return without_secrets(without_private_paths(text, folders))


def shareable_graph(text: str, folders: Iterable[str]) -> str:
    """graph.json without the lines of the script that its nodes come from."""
    data = json.loads(text)
    for holder in _dictionaries(data):
        if "target" in holder:
            holder.pop("source", None)
    return without_private_paths(json.dumps(data, indent=1), folders)


def shareable_case(text: str, folders: Iterable[str]) -> str:
    """case.json without where the script lies, and without lines of it."""
    data = json.loads(text)
    for part, field in _OF_SCRIPT:
        data[part].pop(field, None)
    if "traceback" in data["failure"]:
        data["failure"]["traceback"] = without_source(data["failure"]["traceback"])
    return shareable(json.dumps(data, indent=1), folders)


def _dictionaries(value: Any) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dictionaries(item)
