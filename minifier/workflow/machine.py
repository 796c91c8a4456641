"""Prepare a run: import torch, start interpreters for the verification, connect a cluster, make a temporary folder.

Imports torch only on demand, so that interpreters can start before this process does.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.metadata
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.errors import UsageError
from minifier.process.huge_pages import collapse
from minifier.process.interpreters import Interpreters, may_do_more
from minifier.process.interrupts import interrupted_afterwards
from minifier.process.orphans import spare_children
from minifier.process.phase_clock import PhaseClock
from minifier.process.progress import Phase, Progress, Ui
from minifier.settings import Settings

OLDEST_TORCH = (2, 12)

if TYPE_CHECKING:
    from minifier.cluster.link import Cluster
    from minifier.workflow.attempt import Run


@contextlib.contextmanager
def prepared(settings: Settings, ui: Ui, interpreters: Interpreters) -> Iterator[Run]:
    """Import torch while the first interpreter for the verification starts and the cluster, if any, connects.

    Raises UsageError as `import_torch` does.
    """
    clock = PhaseClock(ui)
    spare_children()
    interpreters.want_ahead(settings.verify - 1)
    interpreters.start_ahead()
    try:
        with _connected(settings) as cluster:
            clock.show(Progress(Phase.LOADING))
            with interrupted_afterwards():
                import_torch()
            from minifier.workflow.attempt import Run

            yield Run(settings, clock, cluster, interpreters)
    finally:
        interpreters.end_ahead()


def import_torch() -> None:
    """Import everything the children need, once, before the first fork.

    The garbage collector is off meanwhile: the imports make millions of permanent objects, and every collection would
    scan them. Raises UsageError if torch cannot be imported, is too old, or lacks an interface that this tool needs.
    """
    gc.disable()
    try:
        _import_all()
    finally:
        gc.enable()
    gc.freeze()


def _refuse_older_torch() -> None:
    """Raise UsageError for a torch release before `OLDEST_TORCH`: its private interfaces are too different."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a torch that was built in place
        release = importlib.metadata.version("torch")
        if tuple(map(int, re.findall(r"\d+", release)[:2])) < OLDEST_TORCH:
            oldest = ".".join(map(str, OLDEST_TORCH))
            raise UsageError(f"torch {release} is installed here; this tool works with torch {oldest} or later.")


def _import_all() -> None:
    _refuse_older_torch()
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            f"torch cannot be imported here ({error}). Install it first, for example with `pip install torch`."
        ) from None
    try:
        importlib.import_module("minifier.workflow.run")
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"torch {torch.__version__} lacks an interface that this tool needs ({error}). It was made for torch 2.13."
        ) from None
    _forget_threads_in_forks()


@functools.cache
def _forget_threads_in_forks() -> None:
    from minifier.torch_private import forget_threads

    os.register_at_fork(after_in_child=forget_threads)


@contextlib.contextmanager
def _connected(settings: Settings) -> Iterator[Cluster | None]:
    """Yield the cluster of the settings, which connects while the script runs, or None."""
    if settings.cluster is None:
        yield None
        return
    from minifier.cluster.link import connected

    with connected(settings.cluster, settings.workers) as cluster:
        yield cluster


def get_ready(interpreters: Interpreters) -> None:
    """Start another interpreter and make forks of this process cheaper, while the script uses a core."""
    interpreters.start_ahead()
    if may_do_more():
        collapse()


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for all temporary files of this process and its children, and remove the folder at the end."""
    from minifier.torch_private import inductor_cache, inductor_folder

    inductor_folder(), inductor_cache()  # cached: they are in the user's temporary folder
    before = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix="minify-"))
    tempfile.tempdir = str(folder)  # the script, in a child, has its own
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
