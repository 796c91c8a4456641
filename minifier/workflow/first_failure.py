"""Find the first of recorded backend calls that fails, and how: each is made in a child."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from minifier.case import BackendSource, Case
from minifier.case.run_folder import RunFolder
from minifier.case.store import save
from minifier.errors import MachineFailed
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.probe.prepared_case import StartsThreads
from minifier.process.progress import Channel, Ui, run_for_result
from minifier.reduction.how_it_fails import how_it_fails
from minifier.settings import Settings
from minifier.workflow.keep_case import keep_case, no_backend
from minifier.workflow.leftovers import kept_source

ANY_FAILURE = Failure(Fingerprint(Stage.COMPARE, Kind.SIGNAL), "", "")
"""The failure of a recorded Case. Its stage is the last: the results are compared."""


def first_failure(recorded: Path, work: Path, settings: Settings, ui: Ui) -> RunFolder | None:
    """Return the folder, in `work`, of the first failing call; None if all calls pass.

    `recorded` has a sub-folder with a Case for each call. Raises NoRepro if a fresh interpreter cannot have the backend
    or cannot make the call, FailsByItself if eager fails as well, and MachineFailed.
    """
    for place in sorted((place for place in recorded.iterdir() if place.name.isdecimal()), key=lambda p: int(p.name)):
        folder = RunFolder(work / place.name)
        case = keep_case(place, folder.path, source=kept_source(recorded))
        _check_backend(case)
        failure = failure_in_child(case, settings, ui)
        if failure is not None:
            save(replace(case, failure=failure, backward=case.backward and _is_of_backward(failure)), folder.case)
            return folder
    return None


def _check_backend(case: Case) -> None:
    """Raise NoRepro if the backend has no source, or needs names of a script without a source."""
    backend = case.backend
    if backend.reach is BackendSource.NONE:
        raise no_backend(backend, backend.reason)
    if backend.reach is BackendSource.DEFINED and not case.definitions:
        names = ", ".join(backend.names)
        raise no_backend(backend, f"the source of __main__, which defines {names}, is not known")


def _is_of_backward(failure: Failure) -> bool:
    """Whether only a backward pass shows the failure."""
    stage = failure.fingerprint.stage
    if stage is Stage.COMPARE:
        return all(difference.is_of_backward for difference in failure.differences)
    return stage in (Stage.BACKWARD_COMPILE, Stage.BACKWARD_RUN)


def failure_in_child(case: Case, settings: Settings, ui: Ui, *, imports_in_child: bool = False) -> Failure | None:
    """Run the Case's call in a child, which imports the user's modules; return the failure, or None for a pass.

    Raises NoRepro if the call cannot be made, FailsByItself if eager fails as well, and MachineFailed if the child is
    killed or exits early.
    """

    def work(_channel: Channel) -> Failure | None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return how_it_fails(case, settings, imports_in_child)

    try:
        failure, end = run_for_result(Failure, work, ui)
    except StartsThreads:
        return failure_in_child(case, settings, ui, imports_in_child=True)
    if end.status != 0:
        how = end.described
        raise MachineFailed(f"looking how the call fails was ended from outside, or by importing its backend ({how})")
    return failure
