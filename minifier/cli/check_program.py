"""Check the program that the user names before anything runs."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tokenize
from pathlib import Path

from minifier.capturing.script import Program
from minifier.errors import UsageError


def check_program(program: Program) -> None:
    """Raises UsageError unless the script is a readable file of Python source."""
    if program.is_module:
        top = program.target.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is None:
            raise UsageError(f"no module named {top} can be found from here.")
        return
    path = Path(program.target)
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name the script in it, or use -m for a module.")
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    try:
        source = path.read_bytes()
        compile(source, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        raise UsageError(f"{path} is not valid Python: line {error.lineno}: {error.msg}.") from None
    except (ValueError, tokenize.TokenError) as error:
        raise UsageError(f"{path} is not a Python script: {error}.") from None
