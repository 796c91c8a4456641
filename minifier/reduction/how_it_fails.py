"""How a backend call fails of which only is known that its process did not survive it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from minifier.case.store import load
from minifier.errors import NoRepro
from minifier.failure import Failure
from minifier.probe.life import Limits
from minifier.probe.prepared_case import prepare_case
from minifier.probe.prober import LocalProber
from minifier.probe.verdicts import seen
from minifier.settings import Settings

_SECONDS = 120.0  # that the call gets, as a backend call of a script does


def how_it_fails(source: Path, settings: Settings, late: bool = False) -> Failure | None:
    """What one call of the backend with the whole graph of this Case shows, up to the stage that its failure names;
    None where it shows nothing. Raises NoRepro, or StartsThreads, as `prepare_case` does."""
    case = load(source)
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        prober = LocalProber(prepare_case(case, late), scratch)
        limits = Limits(settings.timeout or _SECONDS, settings.memory)
        (ended,) = prober.probe([case], case.failure.fingerprint.stage, limits)
        if ended.fault:
            raise NoRepro(f"the call could not be made once more:\n{ended.fault}")
        return seen(ended, case.graph.free_names)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
