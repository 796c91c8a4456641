"""Reduce a graph in the script's own process, which alone has its backend."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

import torch

from minifier.capturing.capture import run_here
from minifier.capturing.graph_record import Record
from minifier.case.run_folder import RunFolder
from minifier.case.serial import pack, unpack
from minifier.case.store import load, write_atomically
from minifier.errors import MinifyError, ToolFailed
from minifier.failure import Stage
from minifier.process.dropped_output import output_dropped
from minifier.process.interrupts import interrupt_once
from minifier.process.orphans import adopt_orphans
from minifier.process.progress import Channel, Phase, Progress, run_displayed
from minifier.reduction.reduce_case import ReductionTask, reduce_case
from minifier.reduction.summary import Summary
from minifier.workflow.attempt import Attempt, Reduced

_NAME = "reduce the graph in the script's own process"


def is_only_live(attempt: Attempt) -> bool:
    """Whether a run of the script showed a wrong result of a graph that no other process has shown."""
    is_wrong = attempt.case.failure.fingerprint.stage is Stage.COMPARE
    return attempt.reduced is None and attempt.call is not None and not attempt.call.unsaved and is_wrong


def reduce_with_live_backend(attempt: Attempt) -> Attempt:
    """Run the script up to the wrong result, and reduce the graph there, in forks of its process.

    That names the ops at fault; no repro can be written, so the attempt keeps its error. It is as it was if the graph
    does not show the failure there either.
    """
    assert attempt.call is not None, "the script is known"
    found, number, run = attempt.call.found, attempt.call.failing.number, attempt.run
    out = attempt.folder.path

    def work(channel: Channel) -> int:
        def on_failure(record: Record, error: BaseException | None) -> None:
            if error is not None or record.number != number:
                return
            torch.set_num_threads(1)  # forks lack the threads that the script's ops have started
            task = ReductionTask(load(record.folder), out, run.settings, backend=record.backend_object)
            try:
                with contextlib.suppress(MinifyError), torch.enable_grad():
                    write_atomically(result, json.dumps(pack(reduce_case(task, channel.show))))
            except Exception:  # noqa: BLE001 - it would go through the script
                write_atomically(trace, traceback.format_exc())
            finally:
                os._exit(0)  # without the script's exit handlers

        interrupt_once()
        adopt_orphans()
        drop_output()
        run_here(found.program, place / "live", found.terms, on_failure)
        return 0

    run.ui.show(Progress(Phase.REDUCING, step="running the script again"))
    with tempfile.TemporaryDirectory(prefix="minify-") as folder, output_dropped(True) as drop_output:
        place = Path(folder)
        result, trace = place / "result.json", place / "trace"
        run_displayed(work, run.ui)
        if trace.exists():
            raise ToolFailed(trace.read_text(encoding="utf-8"))
        if not result.exists():
            run.ui.detail("the graph does not show the failure there either")
            return attempt
        summary: Summary = unpack(Summary, json.loads(result.read_text(encoding="utf-8")))
    run.errors.extend(summary.errors)
    minimal = load(RunFolder(out).minimal)
    return replace(attempt, reduced=Reduced(summary, minimal, attempt.case)).took(_NAME)
