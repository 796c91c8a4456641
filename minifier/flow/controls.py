"""Run a repro with torch's backends that compile nothing: the first that fails alike is at fault, not the backend."""

from __future__ import annotations

import os
import runpy
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.data.case import EAGER, TORCH_COMPILE, BackendReference, BackendSource, Case, Level
from minifier.data.failure import Kind, Stage
from minifier.data.failure.normalise import headline, normalise
from minifier.data.settings import Settings
from minifier.errors import NoRepro
from minifier.process.interpreters import replace_programs_folder
from minifier.process.progress import SILENT, Display, Phase, Progress
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed
from minifier.reduction.summary import ALIKE
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.report.failure_text import is_own_check
from minifier.repro.source.run_source import with_first
from minifier.torch_side.torch_private import INDUCTOR, backend_error

_MIN_TIMEOUT_SECONDS = 60.0
DECOMPOSES = "AOTAutograd with inductor's decompositions and partition"
_PARTS = {"aot_eager": "AOTAutograd", "aot_eager_decomp_partition": DECOMPOSES}
# In a script, for each call of torch.compile.
_REPLACED = (
    "import torch; torch.compile = (lambda compile: lambda *args, **kwargs: compile(*args, **"
    "{{key: value for key, value in kwargs.items() if key not in ('mode', 'options')}} | {{'backend': {!r}}})"
    ")(torch.compile)\n"
)


def run_controls(case: Case, repro: Repro, settings: Settings, display: Display = SILENT) -> Iterator[tuple[str, str]]:
    """Run the Case's repro with torch's backends that compile nothing, as many as apply; yield (backend, how it ended).

    None applies to a graph that AOTAutograd made, if the failure is only a logged line, or if it needs no backend.
    """
    is_line = case.failure.fingerprint.kind is Kind.SILENT_FALLBACK
    if is_line or is_of_dynamo(case) or case.level not in (Level.DYNAMO, Level.SOURCE):
        return
    for name in _PARTS if case.backend.name == INDUCTOR else list(_PARTS)[:1]:
        if name != case.backend.name and (how := _run_with(name, case, repro, settings, display)):
            yield name, how


def is_of_dynamo(case: Case) -> bool:
    """Whether the failure shows while Dynamo traces, or with each graph run as it is."""
    return case.while_tracing or case.backend.name in (TORCH_COMPILE.name, EAGER.name)


def part_ahead(case: Case, controls: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the part at fault ahead of the backend, and a sentence that tells why; ("", "") if none is known.

    It is the first part of torch with which the failure shows. What Dynamo calls as it traces, such as a custom op's
    fake kernel, may be the user's own code, which is no part of torch.
    """
    if is_of_dynamo(case):
        raising = case.failure.fingerprint.raising
        is_torch = raising is None or f"{raising.module}.".startswith("torch.") or is_own_check(case.failure)
        return ("Dynamo", "The failure needs no backend.") if is_torch else ("", "")
    if case.backend.name in _PARTS:
        return _PARTS[case.backend.name], "The backend compiles nothing."
    for name, how in controls:
        if how == ALIKE:
            return _PARTS[name], f'With backend="{name}" it fails in the same way.'
    return "", ""


def _run_with(name: str, case: Case, repro: Repro, settings: Settings, display: Display) -> str:
    """Run the repro with another backend, and describe the result; "" if that is not possible."""
    try:
        script = _with_backend(name, case, repro, settings.memory)
    except NoRepro:
        return ""
    display.show(Progress(Phase.CONTROLS))
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        limits = Limits(max(settings.timeout or 0.0, _MIN_TIMEOUT_SECONDS), settings.memory)
        (end,) = run_again_if_killed([lambda: _run(script, case)], limits, scratch, display.tick)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _result(end, case.failure.fingerprint.kind)


def _with_backend(name: str, case: Case, repro: Repro, memory: int | None) -> Repro:
    """Return the repro with this backend of torch in the place of its own. Raises NoRepro."""
    if repro.template is None:
        return replace(repro, text=with_first(repro.text, _REPLACED.format(name)))
    return write_repro(with_control(case, name), repro.template, repro.variant, memory)


def with_control(case: Case, name: str) -> Case:
    """Return the Case with this backend of torch in the place of its own."""
    backend = BackendReference(name, BackendSource.REGISTERED, f'"{name}"', dynamic=case.backend.dynamic)
    return replace(case, backend=backend)


def _run(script: Repro, case: Case) -> dict[str, Any]:
    """Run the script as an interpreter would. This is done in a child, in a folder of its own."""
    replace_programs_folder(case.import_path)
    os.environ.update(script.given)
    script.write(Path.cwd())
    failure = case.failure
    try:
        runpy.run_path("repro.py", run_name="__main__")
    except SystemExit as end:
        if not end.code:
            return {"how": "passes"}
        how = f"exit status {end.code}"
        return {"how": ALIKE if how == failure.fingerprint.message else f"ends with {how}"}
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        inner = backend_error(error)
        if failure.fingerprint.stage is Stage.COMPARE and isinstance(inner, AssertionError):
            return {"how": ALIKE}
        shown = type(inner).__name__, headline(normalise(str(inner)))
        is_alike = shown == (failure.type.rpartition(".")[2], headline(normalise(failure.message)))
        return {"how": ALIKE if is_alike else f"raises {shown[0]}"}
    return {"how": "passes"}


def _result(end: ChildEnd, sought: Kind) -> str:
    """Describe the result of a run; "" if this tool was at fault."""
    if end.fault:
        return ""
    if end.timed_out:
        return ALIKE if sought is Kind.TIMEOUT else "does not end"
    if end.result is None:
        return ALIKE if sought is Kind.SIGNAL else "the process dies"
    return str(end.result["how"])
