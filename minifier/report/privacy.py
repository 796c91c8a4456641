"""Keeps private paths out of what is handed on."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path


def without_private_paths(text: str, folders: Iterable[str] = ()) -> str:
    """The text with the folders of packages, of the interpreter, of the user and of this run shortened;
    `folders` are more of them, the script's own."""
    known = [
        (sysconfig.get_paths()["purelib"], "<site-packages>"),
        (sysconfig.get_paths()["stdlib"], "<python>"),
        (sys.prefix, "<environment>"),
        (os.getcwd(), "."),
        *((entry, "<path>") for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry),
        *((folder, "<script>") for folder in folders),
        (str(Path.home()), "~"),
    ]
    text = re.sub(r"[^\s\"']*/minify-verify-\w+/empty/", "", text)
    for folder, name in sorted(known, key=lambda pair: -len(pair[0])):
        if len(folder) > 1:
            text = text.replace(folder.rstrip("/") + "/", name + "/")
    # Whatever absolute path is left, of a package installed from its sources for instance: file and folder.
    return re.sub(r'(File \\?")/[^"\\]*/([^/"\\]+/[^/"\\]+)', r"\1<path>/\2", text)
