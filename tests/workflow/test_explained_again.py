"""`minify explain` of a finished run: what is known already stays where nothing is learnt."""

from dataclasses import replace

import pytest
from failing_cases import CASES
from vocabulary import Lines

from minifier.data.case.run_folder import RunFolder
from minifier.data.settings import Settings
from minifier.errors import LimitReached
from minifier.flow import explain as module
from minifier.flow.attempt import Attempt, ReproResult, Run
from minifier.process.progress import PhaseClock
from minifier.reduction.explain import Explanation
from minifier.reduction.summary import Summary
from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import Repro

pytestmark = pytest.mark.timeout(60)

KNOWN = replace(
    Summary(3, 1, 1, 1, {"total": 5}, True, "", 1.0),
    part="a pass",
    reason="Without it the repro does not fail.",
    workarounds=("torch._inductor.config.fallback_random = True",),
    artifacts=("output_code.py",),
)


@pytest.fixture
def attempt(tmp_path):
    folder, case = RunFolder(tmp_path / "out"), CASES["exception"]
    folder.artifacts.mkdir(parents=True)
    (folder.artifacts / "output_code.py").write_text("before")
    result = ReproResult(case, Repro("import torch\n", Template.COMPILE_FUNCTION))
    return Attempt(Run(Settings(), PhaseClock(Lines())), folder, case, repro_result=result)


def files(attempt):
    return {path.name: path.read_text() for path in attempt.folder.artifacts.glob("*")}


@pytest.mark.parametrize("error", [LimitReached("no memory"), KeyboardInterrupt()])
def test_an_explanation_that_does_not_end_changes_nothing(attempt, monkeypatch, error):
    def ends(*_arguments):
        raise error

    ui = Lines()
    monkeypatch.setattr(module, "in_child", ends)
    run = replace(attempt.run, ui=PhaseClock(ui))
    assert module.with_explanation(replace(attempt, run=run), KNOWN, 1.0) == KNOWN
    assert files(attempt) == {"output_code.py": "before"}
    assert (str(error) or "interrupted") in ui.lines[-1]


def test_what_no_probe_tells_anew_stays(attempt, monkeypatch):
    monkeypatch.setattr(module, "in_child", lambda *_arguments: Explanation((("as it is", "fails"),)))
    after = module.with_explanation(attempt, KNOWN, 1.0)
    assert after.explained and after == replace(KNOWN, explained=after.explained)
    assert files(attempt) == {"output_code.py": "before"}


def test_what_an_earlier_run_left_in_the_folder_goes(attempt):
    run = replace(attempt.run, settings=Settings(explain=False))
    module.with_explanation(replace(attempt, run=run), replace(KNOWN, artifacts=()), 1.0)
    assert files(attempt) == {}
