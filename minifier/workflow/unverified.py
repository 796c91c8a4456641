"""Keep the best script of a run that no fresh interpreter has confirmed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import libcst as cst

from minifier.emit.forms import forms_for
from minifier.emit.repro import write_repro
from minifier.errors import NoRepro
from minifier.workflow.attempt import Attempt


def keep_unverified(attempt: Attempt) -> None:
    """Write unverified.py for an attempt without a repro: the first script that was tried, else one of the whole Case.

    A file of values that it reads goes with it. Remove unverified.py once there is a repro.
    """
    folder = attempt.folder
    path = folder.unverified
    if attempt.repro is not None:
        path.unlink(missing_ok=True)
    elif not path.exists():
        tried = folder.attempts / "repro-1"
        with tempfile.TemporaryDirectory(prefix="minify-repro-") as place:
            script = tried if tried.exists() else _script_of_case(attempt, Path(place))
            for file in script.iterdir() if script is not None else ():
                shutil.copyfile(file, path if file.suffix == ".py" else folder.path / file.name)


def _script_of_case(attempt: Attempt, place: Path) -> Path | None:
    """Write a script of the captured Case in the form that is the best to read; None if there is none."""
    for form in forms_for(attempt.case)[:1] if attempt.case.graph.nodes else ():
        try:
            write_repro(attempt.case, *form, attempt.run.settings.memory).write(place)
        except (NoRepro, cst.ParserSyntaxError):  # the latter of a Case that somebody has edited
            return None
        return place
    return None
