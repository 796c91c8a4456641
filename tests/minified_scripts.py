"""From the text of a failing script to a repro of one op that shows its failure alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_script import run_forked
from vocabulary import CASES, Bureau, in_child

from minifier.case import BackendSource
from minifier.case.store import load, save
from minifier.emit.repro import forms_for, write_repro
from minifier.passes.table import OF_VALUES
from minifier.slicing import with_definitions
from minifier.verify import Conditions


def minified(bureau: Bureau, tmp_path: Path, text: str, ops: int = 1, *, plain: bool = True) -> str:
    """The repro that shows the failure of a script of this text, its only failing graph reduced to so many ops; with
    sizes, dtypes and arguments as in the script unless `plain`."""
    captured = bureau.capture(text)
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured.failing
    place = bureau.graphs / str(captured.failing[0].number)
    source = (bureau.folder / "failing.py").read_text()
    in_child(lambda: save(with_definitions(load(place), source), place), tmp_path)
    assert load(place).backend.reach is not BackendSource.NONE, load(place).backend
    summary, case = bureau.reduce(captured.failing[0].number, skipped=() if plain else OF_VALUES)
    assert summary.ops_after == ops, summary
    reasons = []
    for number, (template, variant) in enumerate(forms_for(case)):
        repro = write_repro(case, template, variant)
        path = repro.write(tmp_path / f"repro-{number}")
        run = run_forked(path, case.failure.fingerprint, path=[str(CASES)])
        if Conditions(case.failure.fingerprint, 60, any_stage=template.hides_stage).are_met(run):
            return repro.text
        reasons.append(f"{repro.text}\n{run.output}")
    pytest.fail("\n".join(reasons))
