"""Every fault in every combination that makes sense, from the script to a repro that shows it.

Nothing is played: a script with a model of some 30 ops is captured, reduced in forked probes, and what is left is
written as a repro and run, in a child that has torch already; three cells go through a fresh interpreter. What is left
out, and why, is in `cells.why_not`.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cells import BACKWARD, DYNAMO, FALLBACK_LOG, Cell, all_cells, cells_of_faults, cells_of_kinds, script
from forked_script import run_forked
from vocabulary import CASES, Lines, in_child

import minifier.capturing.observer
import minifier.reduction.reduce_case  # noqa: F401
from minifier.capturing.script import Program
from minifier.case import EAGER, Case, Level, Symbolic
from minifier.emit.repro import Repro, forms_for, write_repro
from minifier.failure import Fingerprint, Kind, Stage
from minifier.process.phase_clock import PhaseClock
from minifier.settings import Settings
from minifier.verify import Conditions, ScriptRun, run_script
from minifier.workflow.attempt import Attempt, FailingCall, Reduced, Run
from minifier.workflow.fallbacks import Step, fall_back
from minifier.workflow.keep_case import keep_case
from minifier.workflow.reduction import reduce
from minifier.workflow.run import capture_failures
from minifier.workflow.run_folder import RunFolder

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("processes")]
KINDS = cells_of_kinds()
CHOSEN = [cell for cell in KINDS if cell.fault in ("raise", "fallback", "nan", "exit")]
# In soak one cell of each other fault; all 324 take half an hour.
OTHERS = [cell for cell in (all_cells() if os.environ.get("WHOLE_MATRIX") else cells_of_faults()) if cell not in CHOSEN]
FRESH = [cell for cell in KINDS if cell.fault in ("raise", "segfault", "wrong")]  # verified in a fresh interpreter


@dataclass(frozen=True)
class Done:
    """What the tool made of a script, up to the verification."""

    case: Case
    found: Reduced
    said: tuple[str, ...]


def minified(cell: Cell, folder: Path) -> Done:
    path = folder / "failing.py"
    path.write_text(script(cell))
    log = FALLBACK_LOG if cell.facts.kind is Kind.SILENT_FALLBACK else None
    hangs = cell.facts.kind is Kind.TIMEOUT
    patience = 1.5 if cell.place == DYNAMO else 3.0  # seconds that each probe which hangs costs
    settings = Settings(timeout=patience if hangs else None, match_log=log)

    def work() -> Done:
        faulthandler.disable()  # pytest's, whose stacks would be written for every death
        sys.path[0] = str(CASES)
        ui, out = Lines(), RunFolder(folder / "out")
        (folder / "work").mkdir()
        found = capture_failures(
            Program(str(path)), folder / "work", Run(replace(settings, timeout=5.0 if hangs else None), PhaseClock(ui))
        )
        assert found.captured.failing, f"nothing failed: {found.captured}"
        run = Run(settings, PhaseClock(ui))
        call = fall_back(FailingCall.of(found, found.captured.failing[0]), Step.CHOOSE, run)
        assert not call.unsaved, call.failing.unsaved
        case = keep_case(call.folder, out.path, call.failing.forward)
        attempt = fall_back(reduce(Attempt(run, out, case)), Step.REDUCE, run)
        assert attempt.reduced is not None, f"{attempt.reason}\n{ui.lines}"
        return Done(case, attempt.reduced, tuple(ui.lines))

    return in_child(work, folder, 250)


def run_fresh(script: Path, sought: Fingerprint, log: str | None) -> ScriptRun:
    """The same in a new interpreter."""
    return run_script(script, Conditions(sought, 100, match_log=log))


def quick(repro: Repro) -> Repro:
    """The guard of a hang waits as long as a fresh interpreter may need; a fork needs less."""
    return replace(repro, text=re.sub(r"(dump_traceback_later\()\d+", r"\g<1>2", repro.text))


def shown_by(case: Case, folder: Path, log: str | None, fresh: bool) -> Repro:
    """The first form of repro that shows the failure; of a comparison, one that finds no difference where nothing is
    compiled."""
    reasons = []
    sought = case.failure.fingerprint
    for number, (template, variant) in enumerate(forms_for(case)):
        repro = write_repro(case, template, variant)
        place = folder / f"repro-{number}"
        run = (
            run_fresh(repro.write(place), sought, log) if fresh else run_forked(quick(repro).write(place), sought, log)
        )
        if Conditions(sought, 100, any_stage=template.hides_stage).are_met(run):
            if sought.stage is not Stage.COMPARE:
                return repro
            control = write_repro(replace(case, backend=EAGER), template, variant)
            run = run_forked(control.write(folder / f"control-{number}"), sought)
            if run.failure is None:
                return repro
        reasons.append(f"--- {template.value} {variant}\n{repro.text}\n{run.status} {run.failure}\n{run.output}")
    pytest.fail("no form of repro shows the failure:\n" + "\n".join(reasons))


@pytest.mark.parametrize("cell", CHOSEN, ids=str)
def test_cell(cell: Cell, tmp_path: Path) -> None:
    check_cell(cell, tmp_path)


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("cell", OTHERS, ids=str)
def test_other_cell(cell: Cell, tmp_path: Path) -> None:
    check_cell(cell, tmp_path)


def check_cell(cell: Cell, tmp_path: Path) -> None:
    done = minified(cell, tmp_path)
    case, summary, minimal = done.case, done.found.summary, done.found.minimal
    found = case.failure.fingerprint
    assert (found.kind, found.stage, case.level) == (cell.facts.kind, cell.expected_stage, cell.expected_level)
    assert not cell.compares or found.message == cell.expected_aspect.value
    assert not cell.compares or case.backward is (cell.place == BACKWARD)
    assert 20 <= summary.ops_before <= 80

    # An op shows fewer aspects of a wrong result than the whole graph, or more.
    assert replace(minimal.failure.fingerprint, aspects=()) == replace(found, aspects=())
    ops = [node.target for node in minimal.graph.ops]
    if cell.has_backward_graph:
        assert Counter(ops) == Counter(cell.expected_aten)
        lifted = done.found.candidates[0]
        assert lifted.level is Level.DYNAMO and lifted.backward
        assert tuple(node.target for node in lifted.graph.ops) == cell.facts.ops
    else:
        assert tuple(ops) == cell.facts.ops
    assert summary.one_minimal and not summary.stopped_because
    assert minimal.symbolic is (Symbolic.GIVEN if cell.fault == "dynamic" else None)
    assert minimal.calls == (2 if cell.fault == "on_call" else 1)
    assert (0 < minimal.rate < 1) if cell.fault == "flaky" else minimal.rate == 1
    assert minimal.state.inference is (cell.fault == "inference")

    log = FALLBACK_LOG if cell.facts.kind is Kind.SILENT_FALLBACK else None
    shown_by(done.found.candidates[0], tmp_path, log, fresh=cell in FRESH)
