"""Finds the failure of a backend call that killed its process."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from minifier.case import Case
from minifier.errors import FailsByItself, NoRepro
from minifier.failure import Failure
from minifier.probe.life import Limits
from minifier.probe.prepared_case import StartsThreads, prepare_case
from minifier.probe.prober import LocalProber
from minifier.probe.verdicts import seen
from minifier.settings import Settings

_DEFAULT_TIMEOUT_SECONDS = 120.0  # as for a backend call of a script


def how_it_fails(case: Case, settings: Settings, imports_in_child: bool = False) -> Failure | None:
    """Call the backend once with the whole graph, up to the failure's stage; return the failure, or None for a pass.

    Raises NoRepro if the call cannot be made, FailsByItself if eager fails as well, and, without `imports_in_child`,
    StartsThreads if the backend's import started threads.
    """
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        prepared = prepare_case(case, imports_in_child)
        if prepared.has_threads:  # a fork lacks them, so that a call may hang or fail in a way of its own
            raise StartsThreads(case.backend.name)
        prober = LocalProber(prepared, scratch)
        limits = Limits(settings.timeout or _DEFAULT_TIMEOUT_SECONDS, settings.memory)
        (ended,) = prober.probe([case], case.failure.fingerprint.stage, limits)
        if ended.fault:
            raise NoRepro(f"the call could not be made once more:\n{ended.fault}")
        if ended.result is not None and ended.result["status"] == "invalid":
            raise FailsByItself(f"the graph fails without the backend as well:\n{ended.result['traceback']}")
        return seen(ended, case.graph.free_names)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
