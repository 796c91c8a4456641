"""What surrounds a run: torch imported once, interpreters started ahead of the verification, a cluster, a temporary
folder. Knows no torch, so that interpreters can start before this process imports it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.errors import UsageError
from minifier.process.huge_pages import collapse
from minifier.process.interpreters import end_ahead, may_do_more, start_ahead, want_ahead
from minifier.process.progress import Phase, Progress, Ui
from minifier.settings import Settings

if TYPE_CHECKING:
    from minifier.cluster.link import Cluster


@contextlib.contextmanager
def prepared(settings: Settings, ui: Ui) -> Iterator[Cluster | None]:
    """Import torch, while the first interpreter for the verification starts and the cluster connects, if one is set.

    Raises UsageError if this torch cannot be imported, or lacks what this tool needs.
    """
    want_ahead(settings.verify - 1)
    start_ahead()
    try:
        with _connected(settings) as cluster:
            ui.show(Progress(Phase.LOADING))
            import_torch()
            yield cluster
    finally:
        end_ahead()


def import_torch() -> None:
    """Import everything the children need, once, before the first fork.

    The collector would look again and again at millions of objects that are all there to stay.
    """
    gc.disable()
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
            f"torch {torch.__version__} lacks what this tool stands on ({error}). It is made for torch 2.13."
        ) from None
    gc.enable()
    gc.freeze()


@contextlib.contextmanager
def _connected(settings: Settings) -> Iterator[Cluster | None]:
    """The cluster of the settings, which connects while the script runs."""
    if settings.cluster is None:
        yield None
        return
    from minifier.cluster.link import connected

    with connected(settings.cluster, settings.workers) as cluster:
        yield cluster


def get_ready() -> None:
    """While the script keeps one core: start a further interpreter, and make forks of this process cheaper."""
    start_ahead()
    if may_do_more():
        collapse()


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """One folder for everything temporary of this process and its children; removed whatever happens."""
    from minifier.torch_private import inductor_cache, inductor_folder

    inductor_folder(), inductor_cache()  # found below the temporary folder as the user has it
    before = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix="minify-"))
    tempfile.tempdir = str(folder)  # the script, in a child, has its own
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
