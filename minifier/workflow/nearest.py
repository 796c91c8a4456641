"""The smallest known change of a repro after which it passes."""

from __future__ import annotations

from minifier.case.store import CASE, load
from minifier.emit.footer import difference
from minifier.emit.repro import Repro, write_repro
from minifier.errors import NoRepro
from minifier.workflow.attempt import Attempt


def nearest_repro(attempt: Attempt, repro: Repro) -> str:
    """Return the script of the nearest Case that passes, in the form of the repro; "" if none is known."""
    folder = attempt.folder.nearest
    if repro.template is None or not (folder / CASE).exists():
        return ""
    try:
        return write_repro(load(folder), repro.template, repro.variant, attempt.run.settings.memory).text
    except NoRepro:
        return ""


def nearest_change(attempt: Attempt) -> str:
    """Return the change that makes the repro pass, as a diff; "" if none is known."""
    repro = attempt.repro
    other = nearest_repro(attempt, repro) if repro is not None else ""
    return difference(repro.text, other) if repro is not None and other else ""
