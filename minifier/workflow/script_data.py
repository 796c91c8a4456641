"""The data that a script reads from files, its arguments or the environment, as literals."""

from __future__ import annotations

import ast
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import libcst as cst

from minifier.capturing.script import Program
from minifier.case.literals import literal
from minifier.case.variables import may_be_written
from minifier.fx.script_definitions import define
from minifier.probe.children import run_children
from minifier.probe.life import Limits
from minifier.slicing.data_read import ReadData, data_read
from minifier.slicing.slices import Wanted, slice_module

_MAX_SECONDS = 60.0
_MAX_CHARACTERS = 2000  # of a literal that a person would write
# Beginnings of the names of audit events: https://docs.python.org/3/library/audit_events.html
_CHANGES = (
    *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"),
    *("os.truncate", "os.utime", "os.setxattr", "os.removexattr", "shutil.", "tempfile.", "sqlite3.", "syslog."),
    *("os.exec", "os.fork", "os.kill", "os.posix_spawn", "os.spawn", "os.system", "subprocess.", "pty."),
    *("socket.", "ftplib.", "http.", "imaplib.", "poplib.", "smtplib.", "telnetlib.", "urllib.", "webbrowser."),
)


def literals_of(program: Program, path: Sequence[str] = ()) -> Mapping[str, str]:
    """Return literals by the text of what reads data, or of the name that a block binds to it.

    The statements that the data need run in a child, in the script's own folder, with its arguments. `path` are folders
    that the script adds to the import path. Empty if the script reads none, or if that takes too long.
    """
    source = program.source()
    try:
        found = data_read(source)
    except cst.ParserSyntaxError:
        return {}
    if not found:
        return {}
    place = os.getcwd()
    home = place if program.is_module else str(Path(program.target).resolve().parent)

    def evaluate() -> dict[str, Any]:
        sys.dont_write_bytecode = True
        sys.addaudithook(_refuse_changes)
        os.chdir(place)
        sys.argv = [program.target, *program.arguments]
        sys.path[:0] = [home, *path]
        texts = {data.text: _literal(data, source, str(Path(program.target).resolve())) for data in found}
        return {"literals": {name: text for name, text in texts.items() if text}}

    with tempfile.TemporaryDirectory(prefix="minify-") as scratch:
        (end,) = run_children([evaluate], Limits(_MAX_SECONDS), Path(scratch))
    return end.result["literals"] if end.result is not None else {}


def _refuse_changes(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open a file for writing, and the steps in `_CHANGES`. Native code without audit events is not seen."""
    writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if writes or event.startswith(_CHANGES):
        raise PermissionError(f"{event} is not allowed while the data that a script reads are evaluated")


def _literal(data: ReadData, source: str, file: str) -> str:
    """Return the value as a literal; "" if it is no plain data, private, or cannot be had."""
    if not all(may_be_written(name, os.environ.get(name, "")) for name in data.variables):
        return ""
    try:
        names = define(slice_module(source, Wanted(data.names)) if data.names else "", file)
        value = eval(data.text, names)
        text = literal(value)
        is_plain = len(text) <= _MAX_CHARACTERS and bool(ast.literal_eval(text) == value)
    except BaseException:  # noqa: BLE001 - the script's code may raise or exit as it likes
        return ""
    is_path = isinstance(value, str) and os.sep in value
    return text if is_plain and not is_path else ""
