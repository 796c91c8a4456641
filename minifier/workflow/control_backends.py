"""Run the repro with `aot_eager`, to tell whether the backend or AOTAutograd is at fault."""

from __future__ import annotations

import os
import runpy
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.case import BackendReference, BackendSource, Case, Level
from minifier.emit.repro import Repro, write_repro
from minifier.errors import NoRepro
from minifier.failure import Kind, Stage
from minifier.probe.children import ChildEnd, run_again_if_killed
from minifier.probe.life import Limits
from minifier.process.import_path import replace_programs_folder
from minifier.process.progress import SILENT, Display, Phase, Progress
from minifier.settings import Settings
from minifier.torch_private import backend_error

AOT_EAGER = BackendReference("aot_eager", BackendSource.REGISTERED, '"aot_eager"')
_MIN_TIMEOUT_SECONDS = 60.0


def run_with_aot_eager(case: Case, repro: Repro, settings: Settings, display: Display = SILENT) -> str:
    """Run the Case's repro with the backend `aot_eager`, and describe the result; "" if that is not possible.

    Nothing runs for a graph that AOTAutograd made, or if the failure is only a logged line.
    """
    is_line = case.failure.fingerprint.kind is Kind.SILENT_FALLBACK
    if case.level is not Level.DYNAMO or repro.template is None or is_line:
        return ""
    backend = replace(AOT_EAGER, dynamic=case.backend.dynamic)
    try:
        script = write_repro(replace(case, backend=backend), repro.template, repro.variant, settings.memory)
    except NoRepro:
        return ""
    compares = case.failure.fingerprint.stage is Stage.COMPARE
    display.show(Progress(Phase.CONTROLS))
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        limits = Limits(max(settings.timeout or 0.0, _MIN_TIMEOUT_SECONDS), settings.memory)
        (end,) = run_again_if_killed([lambda: _run(script, case.import_path, compares)], limits, scratch, display.tick)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _result(end)


def _run(script: Repro, path: tuple[str, ...], compares: bool) -> dict[str, Any]:
    """Run the script as an interpreter would. This is done in a child, in a folder of its own."""
    replace_programs_folder(path)
    os.environ.update(script.given)
    script.write(Path.cwd())
    try:
        runpy.run_path("repro.py", run_name="__main__")
    except SystemExit as end:
        return {"how": "passes" if not end.code else f"ends with exit status {end.code}"}
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        inner = backend_error(error)
        if compares and isinstance(inner, AssertionError):
            return {"how": "differs from eager"}
        return {"how": f"raises {type(inner).__name__}"}
    return {"how": "passes"}


def _result(end: ChildEnd) -> str:
    """Describe the result of a run; "" if this tool was at fault."""
    if end.fault:
        return ""
    if end.timed_out:
        return "does not end"
    return "the process dies" if end.result is None else str(end.result["how"])
