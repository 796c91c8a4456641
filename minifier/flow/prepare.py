"""Prepare a run: import torch, start interpreters for the verification, make a temporary folder.

Imports torch only on demand, so that interpreters can start before this process does.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from minifier.data.losses import losses, losses_of_a_run
from minifier.data.settings import Settings
from minifier.data.torch_names import (
    NEWEST_TORCH,
    OLDEST_TORCH,
    loaded_with_torch,
    release_of,
    shown,
    torchs_version,
    why_untested,
)
from minifier.errors import UsageError
from minifier.process.descendants import orphans_adopted
from minifier.process.interpreters import Interpreters, may_do_more
from minifier.process.interrupts import interrupted_afterwards
from minifier.process.machine import collapse
from minifier.process.progress import Phase, PhaseClock, Progress, Ui
from minifier.process.temporary import temporary_folder

if TYPE_CHECKING:
    from minifier.flow.attempt import Run


@contextlib.contextmanager
def prepared(settings: Settings, ui: Ui, interpreters: Interpreters) -> Iterator[Run]:
    """Import torch while the first interpreter for the verification starts.

    Raises UsageError as `import_torch` does.
    """
    refuse_older_torch()
    clock = PhaseClock(ui)
    with contextlib.ExitStack() as ending:
        ending.enter_context(losses_of_a_run())
        ending.enter_context(orphans_adopted())
        temporary = ending.enter_context(temporary_folder())
        ending.callback(interpreters.end_ahead)
        clock.show(Progress(Phase.LOADING))
        interpreters.want_ahead(settings.verify - 1)
        interpreters.start_ahead()
        if not gc.get_freeze_count():
            ending.callback(gc.unfreeze)
        with interrupted_afterwards(), temporary.usual_folder():  # torch looks for inductor's cache as it is imported
            import_torch()
            from minifier.torch_side.torch_private.inductor import inductor_cache, inductor_folder

            inductor_folder(), inductor_cache()  # the answers are cached
        for sentence in doubts():
            ui.say(sentence)
        from minifier.flow.attempt import Run

        yield Run(settings, clock, interpreters, ending)


def import_torch() -> None:
    """Import everything the children need, once, before the first fork.

    The garbage collector is off meanwhile: the imports make millions of permanent objects, and every collection would
    scan them. Raises UsageError if torch cannot be imported, is too old, or lacks an interface that this tool needs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        import_with_torch("minifier.flow.run")
        _forget_threads_in_forks()
    finally:
        if was_enabled:
            gc.enable()
    if not gc.get_freeze_count():  # else the process is the user's, who has frozen objects
        gc.freeze()


def doubts() -> list[str]:
    """Return a sentence if this torch was not tested, and one for each interface that it lacks."""
    from minifier.torch_side.torch_private.declared import look

    look()
    version = torchs_version()
    why = why_untested(version)
    return [*([f"torch {version} is {why}"] if why else ()), *losses()]


def refuse_older_torch() -> None:
    """Raise UsageError for a torch release before `OLDEST_TORCH`: its private interfaces are too different.

    Does not import torch. Does nothing for a torch of unknown version, or without torch.
    """
    version = torchs_version()
    if version and release_of(version) < OLDEST_TORCH:
        raise UsageError(
            f"torch {version} is installed here; this tool works with torch {shown(OLDEST_TORCH)} or later."
        )


def refuse_without_torch() -> None:
    """Raise UsageError unless a torch is here that is not too old; import it."""
    refuse_older_torch()
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise UsageError(
            f"torch cannot be imported here ({error}). Install it first, for example with `pip install torch`."
        ) from None
    refuse_older_torch()  # a torch without metadata says its version only now


def import_with_torch(module: str) -> ModuleType:
    """Import a module of this tool that needs torch.

    Raises UsageError if torch cannot be imported, is too old, or lacks an interface without which nothing works.
    """
    refuse_without_torch()
    try:
        loaded_with_torch()
        imported = importlib.import_module(module)
    except (ImportError, AttributeError) as error:
        raise UsageError(_lacking(str(error))) from None
    from minifier.torch_side.torch_private.declared import missing_altogether

    if missing := missing_altogether():
        raise UsageError(_lacking(", ".join(missing)))
    return imported


def _lacking(what: str) -> str:
    return (
        f"torch {torchs_version()} lacks an interface that this tool needs ({what}). The tested releases are "
        f"{shown(OLDEST_TORCH)} to {shown(NEWEST_TORCH)}; `minify doctor` has more."
    )


@functools.cache
def _forget_threads_in_forks() -> None:
    from minifier.torch_side.torch_private.inductor import forget_threads

    os.register_at_fork(after_in_child=forget_threads)


def get_ready(interpreters: Interpreters, tick: Callable[[], object]) -> None:
    """Start another interpreter and make forks of this process cheaper, while the script uses a core."""
    interpreters.start_ahead()
    if may_do_more():
        collapse(tick)
