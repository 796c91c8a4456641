"""Finished runs, made by hand: what the tests of reports and of the last lines start from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from case_samples import call, graph, output, placeholder, small_case

from minifier.data.case import Case, Ref
from minifier.data.case.store import save
from minifier.data.failure import Failure
from minifier.reduction.summary import Summary
from minifier.repro.emit.repro import Repro
from minifier.repro.report.markdown import markdown
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.sections import report_of
from minifier.repro.verify import ScriptRun, Verification


def verified(failure: Failure, control: Failure | None = None) -> Verification:
    """Three runs that show the failure, and one with the control that shows `control`."""
    return Verification(
        (ScriptRun(1, failure, "", 1.0),) * 3, 3, 1.0, ScriptRun(int(control is not None), control, "", 1.0)
    )


def finished(captured: Case, minimal: Case, repro: Repro, **changes) -> Outcome:
    """A run that reduced the captured Case to the minimal one, with a verified repro."""
    summary = Summary(len(captured.graph.ops), 1, 1, 6, {"total": 8}, True, "", 1.0)
    folder = Path.cwd() / "minify-out" / "failing-1"
    made = Outcome(captured, minimal, summary, repro, verified(minimal.failure), "", 0.0, 12.34, folder=folder)
    return replace(made, **changes)


def outcome(failure: Failure | None = None, **more) -> Outcome:
    """A run on `small_case`, with this failure and these changes of the Case, reduced to its tanh."""
    small = small_case()
    captured = replace(
        small, failure=failure or small.failure, script=replace(small.script, file="failing.py", line=7), **more
    )
    tanh = replace(call("tanh", "torch.tanh", Ref("x")), place="model.py:14")
    changes = {"graph": graph(placeholder("x"), tanh, output("tanh")), "inputs": captured.inputs[:1], **more}
    return finished(captured, replace(captured, **changes), Repro("import torch\n", None))


def summed_up(given: Outcome, **changes) -> Outcome:
    """The run with changes of its summary."""
    assert given.summary is not None
    return replace(given, summary=replace(given.summary, **changes))


def write_run(folder: Path, given: Outcome) -> None:
    """What a run has written ahead of its reports: its Cases and the repro."""
    assert given.minimal is not None and given.repro is not None
    save(given.case, folder / "case")
    save(given.minimal, folder / "minimal")
    (folder / "repro.py").write_text(given.repro.text)


def text_of(given: Outcome) -> str:
    """report.md of the run."""
    return markdown(report_of(given))
