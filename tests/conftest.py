"""Fixtures of the tests of the tool; the words are in vocabulary.py."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vocabulary import CASES, Bureau, Minified, Project, in_child

# Children are forked from this process: with one thread there is no pool that a fork could break.
os.environ["OMP_NUM_THREADS"] = "1"
sys.path.append(str(CASES))
# A shell starts what it puts in the background deaf to Ctrl-C, and the tests of Ctrl-C would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def minify(project: Project) -> Callable[..., Minified]:
    """`minify(text, *arguments, given=options)` runs a script of this text under `minify run`."""
    return project.run


@pytest.fixture
def forked(tmp_path: Path) -> Callable[..., Any]:
    """`forked(work)` gives what `work()` gives, run in a child, so that it cannot change this process."""
    return lambda work, timeout=60: in_child(work, tmp_path, timeout)


@pytest.fixture
def bureau(tmp_path: Path) -> Bureau:
    return Bureau(tmp_path)
