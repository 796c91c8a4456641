"""Every fault in every combination that makes sense, from the script to a repro that shows it.

Nothing is played: `minifier.run` runs a script with a model of some 30 ops, and its interpreters are forks that have
torch already; three cells go through a fresh interpreter. What is left out is in `cells.makes_sense`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from cells import BACKWARD, FALLBACK_LOG, Cell, all_cells, cells_of_faults, cells_of_kinds, script
from layers import SOAK
from vocabulary import minified_here

from minifier.data.case import Level, Symbolic
from minifier.data.failure import Kind

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("processes")]
KINDS = cells_of_kinds()
CHOSEN = [cell for cell in KINDS if cell.fault in ("raise", "fallback", "nan", "exit")]
# In soak one cell of each other fault; all 324 take half an hour.
OTHERS = [cell for cell in (all_cells() if os.environ.get("WHOLE_MATRIX") else cells_of_faults()) if cell not in CHOSEN]
FRESH = [cell for cell in KINDS if cell.fault in ("raise", "segfault", "wrong")]  # verified in a fresh interpreter


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, id=str(cell), marks=[SOAK] * (cell not in CHOSEN)) for cell in [*CHOSEN, *OTHERS]]
)
def test_cell(cell: Cell, tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text(script(cell))
    log = FALLBACK_LOG if cell.facts.kind is Kind.SILENT_FALLBACK else None
    hang = {"timeout": 5.0} if cell.facts.kind is Kind.TIMEOUT else {}  # seconds
    done = minified_here(path, tmp_path, 250, fresh=cell in FRESH, verify=1, match_log=log, **hang)
    case, summary, minimal = done.case, done.summary, done.minimal
    found = case.failure.fingerprint
    assert (found.kind, found.stage, case.level) == (cell.facts.kind, cell.expected_stage, cell.expected_level)
    assert not cell.compares or found.message == cell.expected_aspect.value
    assert not cell.compares or case.backward is (cell.place == BACKWARD)
    assert 20 <= summary.ops_before <= 80

    # An op shows fewer aspects of a wrong result than the whole graph, or more.
    assert replace(minimal.failure.fingerprint, aspects=()) == replace(found, aspects=())
    ops = [node.target for node in minimal.graph.ops]
    assert tuple(ops) == cell.facts.ops
    if cell.has_backward_graph:
        assert minimal.level is Level.DYNAMO and minimal.backward
    assert summary.one_minimal and not summary.stopped_because
    assert minimal.symbolic is (Symbolic.GIVEN if cell.fault == "dynamic" else None)
    assert minimal.calls == (2 if cell.fault == "on_call" else 1)
    assert (0 < minimal.rate < 1) if cell.fault == "flaky" else minimal.rate == 1
    assert minimal.state.inference is (cell.fault == "inference")
    assert done.repro is not None, done.reason
