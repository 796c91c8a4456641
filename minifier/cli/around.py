"""What is around a run: torch imported once, a temporary folder, what is started ahead of its time."""

from __future__ import annotations

import contextlib
import gc
import importlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.errors import UsageError
from minifier.process.interpreters import end_ahead, start_ahead, want_ahead

if TYPE_CHECKING:
    from minifier.cluster.link import Cluster


def import_torch() -> None:
    """Everything the children need, once, before the first fork; without collecting the millions of
    objects again and again that are all there to stay."""
    gc.disable()
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            f"torch cannot be imported here ({error}). Install it first, for example with `pip install torch`."
        ) from None
    try:
        importlib.import_module("minifier.capturing.observer")
        importlib.import_module("minifier.reduction.reduce_case")
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"torch {torch.__version__} lacks what this tool stands on ({error}). It is made for torch 2.13."
        ) from None
    gc.enable()
    gc.freeze()


@contextlib.contextmanager
def verification_ahead(runs: int) -> Iterator[None]:
    """With the first of the interpreters for the verification started, and the others ended in the end."""
    want_ahead(runs - 1)
    start_ahead()
    try:
        yield
    finally:
        end_ahead()


@contextlib.contextmanager
def cluster_of(given: dict[str, Any]) -> Iterator[Cluster | None]:
    """The cluster that was asked for, which connects while the script runs."""
    if given["cluster"] is None:
        yield None
        return
    from minifier.cluster.link import connected

    with connected(given["cluster"], given["workers"]) as cluster:
        yield cluster


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """One folder for all that is temporary, this process's and its children's; removed whatever happens."""
    from minifier.torch_private import inductor_cache, inductor_folder

    inductor_folder(), inductor_cache()  # found below the temporary folder as the user has it
    folder = Path(tempfile.mkdtemp(prefix="minify-"))
    tempfile.tempdir = str(folder)  # the script, in a child, has its own
    try:
        yield folder
    finally:
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)
