"""Keep private data out of shared files: paths, names of users and machines, the script's source."""

from __future__ import annotations

import functools
import getpass
import json
import os
import re
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from minifier.data.case.files import MARK, read_text
from minifier.data.case.serial import parsed
from minifier.data.case.store import write_atomically
from minifier.data.case.switches import may_be_written

_FILE = re.compile(r'(?P<head>[ |+]*File \\?")(?P<path>[^"\n\\]+)(?P<tail>\\?", line \d+.*)')
_ABSOLUTE = re.compile(r"(?<![\w.:/<>~-])(?:/[\w.@+<>-]+)+((?:/[\w.@+<>-]+){2})")
# Begins a word: a search from the middle of each long word would take quadratic time.
_VERIFIED = re.compile(r"(?<![^\s\"'])[^\s\"']*/minify-verify-\w+/empty/")
PRIVATE = "private.json"
_MIN_NAME_CHARS = 3
# Fields of a Case with the script's source or location.
_OF_SCRIPT = (("script", "path"), ("script", "folders"), ("backend", "folders"), ("backend", "files"))


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose code is whose. `script` are the script's folders; `public` are the files and folders of the backend.

    `names` are private names of the machine that has captured the Case, each with its placeholder.
    """

    script: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()


NOBODYS = Ownership()


def _packages() -> set[str]:
    """Return the folders of packages, also those of `pip install --user`."""
    own = {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    return {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *own}


def _folder(find: Callable[[], object]) -> str:
    """Return the folder; "" if it has been removed, or if nobody knows it."""
    try:
        return str(find())
    except (OSError, RuntimeError):
        return ""


def without_private_paths(text: str, folders: Iterable[str] = ()) -> str:
    """Shorten the folders of packages, interpreter, user and run in the text.

    `folders` are the script's own; relative ones are not private.
    """
    if "/" not in text:
        return text
    known = [
        *((folder, "<site-packages>") for folder in _packages()),
        (sysconfig.get_path("stdlib"), "<python>"),
        (sys.prefix, "<environment>"),
        (_folder(os.getcwd), "."),
        *((entry, "<path>") for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)),
        *((folder, "<script>") for folder in folders),
        (_folder(Path.home), "~"),
    ]
    text = _VERIFIED.sub("", text)
    for folder, name in sorted(known, key=lambda pair: -len(pair[0])):
        if len(folder) > 1 and os.path.isabs(folder):
            text = re.sub(rf"(?<![\w.-]){re.escape(folder.rstrip('/'))}(?![\w.-])", name, text)
    return text


def without_names(text: str, noted: Iterable[tuple[str, str]] = ()) -> str:
    """Replace the names of user and machine, and the `noted` names. Any other absolute path is cut to its last two
    components."""
    for name, placeholder in _names(noted):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", placeholder.replace("\\", r"\\"), text)
    text = re.sub(r"/(home|Users)/[^/\s\"']+", r"/\1/<user>", text)
    return _ABSOLUTE.sub(r"<path>\1", text)


def note_private(folder: Path) -> None:
    """Write this machine's private names next to a captured Case, which may be reduced on another machine.

    The file goes into no bundle.
    """
    write_atomically(folder / PRIVATE, json.dumps(_names()) + "\n")


def noted_names(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the private names noted in this folder; none for a Case that was captured on this machine."""
    try:
        return tuple((str(name), str(placeholder)) for name, placeholder in parsed(read_text(folder / PRIVATE)))
    except (OSError, ValueError, TypeError):
        return ()


def _names(noted: Iterable[tuple[str, str]] = ()) -> list[tuple[str, str]]:
    machine = socket.gethostname()
    names = [(machine, "<host>"), (machine.partition(".")[0], "<host>"), (_user(), "<user>"), *noted]
    return [pair for pair in names if len(pair[0]) >= _MIN_NAME_CHARS and pair[0].lower() not in _words_of_code()]


@functools.cache
def _words_of_code() -> frozenset[str]:
    """Return the words in the names of the loaded modules and of their members: `torch`, `data`, `root`, `max`.

    A user or a machine with such a name cannot be told from code, nor be found by it.
    """
    members = (name for module in [*sys.modules.values()] for name in [*getattr(module, "__dict__", ())])
    return frozenset(word for name in (*sys.modules, *members) for word in re.split(r"[._]+", name.lower()))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, in a container for example
        return ""


def without_source(trace: str, public: Iterable[str] = ()) -> str:
    """Return the traceback with source lines of installed packages, the standard library, repros and `public` only.

    `public` are files and folders.
    """
    shown = {*_packages(), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *public}
    lines, is_shown = [], True
    for line in trace.splitlines():
        frame = _FILE.match(line)
        if frame is not None:
            is_shown = _is_public(frame["path"], shown)
        if frame is not None or is_shown or not line.startswith(("    ", "  |     ", "  +     ")):
            lines.append(line)
    return "\n".join(lines)


def _is_public(path: str, public: Iterable[str]) -> bool:
    if path.startswith("<"):
        return not path.startswith(("<script>", "<ipython-input"))
    is_known = any(path == known or path.startswith(f"{known}/") for known in public)
    return is_known or "site-packages" in path or "/minify-verify-" in path or Path(path).name == "repro.py"


def shareable(text: str, owned: Ownership = NOBODYS) -> str:
    """Return prose or a traceback without private paths, names and source. Secrets: see redact.py."""
    return without_names(without_private_paths(without_source(text, owned.public), owned.script), owned.names)


def shareable_graph(text: str, clean: Callable[[str], str]) -> str:
    """Return graph.json with each string cleaned, without its nodes' lines of the script."""

    def without_lines(holder: dict[str, Any]) -> dict[str, Any]:
        left_out = ("source", "place") if "target" in holder else ()
        return {name: value for name, value in holder.items() if name not in left_out}

    data = json.loads(text, object_hook=without_lines)
    return json.dumps(changed_strings(data, clean), indent=1)


def shareable_case(text: str, definitions: str, clean: Callable[[str], str]) -> str:
    """Return case.json with each string cleaned, and without the script except for these definitions."""
    data = json.loads(text)
    for section, field in _OF_SCRIPT:
        data[section].pop(field, None)
    state = data["state"]
    state["environment"] = [pair for pair in state.get("environment", ()) if may_be_written(*pair)]
    data.pop("definitions", None)
    data.pop(MARK, None)  # of the private Case
    for difference in data["failure"].get("differences", ()):
        difference.pop("elements", None)  # may be values of the user's data
    public: dict[str, Any] = changed_strings(data, clean)
    if definitions:
        public["definitions"] = definitions
    return json.dumps(public, indent=1)


def changed_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data or a dataclass with each string changed, except names of fields and members of enums."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else change(value)
    if isinstance(value, Mapping):
        return {key: changed_strings(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(changed_strings(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: changed_strings(getattr(value, each.name), change) for each in fields(value)}
        )
    return value
