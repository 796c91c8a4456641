"""Starts: which apply to an attempt, in which order, what is reduced, and what stays of one that leads to no repro."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from case_samples import small_case
from clock import Clock
from vocabulary import Lines, source_of

from minifier.capturing.script import Program
from minifier.data.case import Call, Level, Ones
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import load, save
from minifier.data.case.symbolic_sizes import goes_through_dynamo, specialised
from minifier.data.settings import Settings
from minifier.errors import (
    MachineFailed,
    NoRepro,
    NothingToReduce,
    OtherMessage,
    StoppedAtOnce,
    StoppedEarly,
    ToolFailed,
)
from minifier.flow import starts as module
from minifier.flow.attempt import Attempt, Reduced, ReproResult, Run
from minifier.flow.folders import Asked
from minifier.flow.starts import STARTS, Start, through_starts
from minifier.process.progress import PhaseClock
from minifier.reduction.check import Shown
from minifier.reduction.simplify_and_prove import STOPPED
from minifier.reduction.summary import OtherFailure, Summary
from minifier.repro.emit.repro import Repro
from minifier.search import Ending

pytestmark = pytest.mark.timeout(60)

CASE = specialised(replace(small_case(), level=Level.DYNAMO))
SCRIPT = """
    import torch
    import acme.plugin
    import json

    json.dumps(torch.compile(torch.sin, backend="acme"))
"""
SUMMARY = Summary(3, 1, 1, 1, {"total": 5, "same": 3, "pass": 2}, True, "", 1.0)


@pytest.fixture
def attempt(tmp_path):
    folder = RunFolder(tmp_path / "out")
    save(CASE, folder.case)
    script = tmp_path / "failing.py"
    script.write_text(source_of(SCRIPT))
    run = Run(Settings(), PhaseClock(Lines()))
    case = load(folder.case)
    return Attempt(run, folder, case, Asked(Program(str(script))), error=NoRepro("the backend took it"))


@pytest.fixture
def probed(monkeypatch):
    """The Cases of the starts that were probed. `shows` of the list tells whether a Case shows the failure."""

    class Probed(list):
        shows = staticmethod(lambda _case: False)

    cases = Probed()

    def once(_attempt, case, _name):
        cases.append(case)
        holds = cases.shows(case)
        return Shown(holds, {"total": 1, "same": int(holds), "pass": int(not holds)})

    monkeypatch.setattr(module, "shown_once", once)
    monkeypatch.setattr(module, "search_for", lambda _, case: SimpleNamespace(search=lambda: ReproResult(case)))
    monkeypatch.setattr(module, "is_of_script", lambda _: False)
    monkeypatch.setattr(module, "others", lambda _: ())
    return cases


def test_imports_come_before_torch_compile(attempt, probed):
    through_starts(attempt)
    effects, every, compiled = probed
    assert effects.backend.ahead == ("import acme.plugin",)
    assert every.backend.ahead == ("import torch", "import acme.plugin", "import json")
    assert compiled == replace(attempt.case, through_dynamo=True)


def test_a_message_that_varies_comes_last_and_through_torch_compile(attempt, probed):
    through_starts(replace(attempt, error=OtherMessage("another message")))
    assert probed[-1].through_dynamo and probed[-1].failure.fingerprint.any_message


def test_symbols_go_through_torch_compile_anyway(attempt, probed):
    attempt = replace(attempt, case=replace(small_case(), level=Level.DYNAMO))
    assert goes_through_dynamo(attempt.case) and not goes_through_dynamo(CASE)
    through_starts(attempt)
    assert probed and not any(case.through_dynamo for case in probed)


def reduces(monkeypatch, error=None):
    """Let each Case be reduced, or raise the error."""

    def reduce_in_child(_attempt, case, out, _settings=None, *, doubtful=False):
        if error is not None and error(case) is not None:
            raise error(case)
        save(case, RunFolder(out).minimal)
        return Reduced(SUMMARY, case, case)

    monkeypatch.setattr(module, "reduce_in_child", reduce_in_child)


def test_the_first_that_shows_the_failure_is_reduced_and_named(attempt, probed, monkeypatch):
    probed.shows = lambda case: case.through_dynamo
    reduces(monkeypatch)
    after = through_starts(attempt)
    assert [case.through_dynamo for case in probed] == [False, False, True]
    assert after.error is None and after.case.through_dynamo and load(after.folder.case).through_dynamo
    assert after.fallbacks == ("torch.compile on the graph's function",)
    assert after.reduced.summary.probes == {"total": 8, "same": 4, "pass": 4}


def test_messages_that_vary_hold_up_the_reduction_of_a_start_no_more_than_that_of_the_captured_case(
    attempt, probed, monkeypatch
):
    near = OtherFailure("RuntimeError", "another message", "", "compile", "exception", 1, 5, "others/1", near=True)
    large = replace(SUMMARY, ops_after=9, others=(near,) * 5)
    asked = []

    def reduce_in_child(_attempt, case, out, _settings=None, *, doubtful=False):
        asked.append((case.through_dynamo, case.failure.fingerprint.any_message))
        save(case, RunFolder(out).minimal)
        return Reduced(SUMMARY if asked[-1][1] else large, case, case)

    probed.shows = lambda case: case.through_dynamo
    monkeypatch.setattr(module, "reduce_in_child", reduce_in_child)
    after = through_starts(attempt)
    assert asked == [(True, False), (True, True)] and after.reduced.summary.ops_after == 1
    assert len(after.fallbacks) == 2 and load(after.folder.minimal).failure.fingerprint.any_message


def test_the_next_is_probed_if_the_reduction_fails_after_all(attempt, probed, monkeypatch):
    probed.shows = lambda _: True
    reduces(monkeypatch, lambda case: None if case.through_dynamo else NothingToReduce("it fails in eager too"))
    after = through_starts(attempt)
    assert len(probed) == 3 and after.case.through_dynamo and after.case.backend.ahead == ()


def test_without_any_the_attempt_and_its_case_are_as_before(attempt, probed):
    assert replace(through_starts(attempt), probes={}) == attempt
    assert load(attempt.folder.case) == attempt.case


def test_an_error_of_the_tool_leaves_the_case_as_captured(attempt, probed, monkeypatch):
    ui = Lines()
    reduces(monkeypatch, lambda _: LookupError("a slip of the tool"))
    after = through_starts(replace(attempt, error=None, run=Run(Settings(), PhaseClock(ui))))
    assert probed == []
    assert after.fallbacks == ("take the Case as captured",) and after.reduced.minimal == attempt.case
    assert "a slip of the tool" in ui.lines[0] and "None" not in "".join(ui.lines)


@pytest.mark.parametrize("error", [StoppedEarly, StoppedAtOnce, MachineFailed, ToolFailed, KeyboardInterrupt])
def test_an_interrupt_leaves_the_case_as_captured(attempt, probed, monkeypatch, error):
    probed.shows = lambda case: case.through_dynamo
    reduces(monkeypatch, lambda _: error("in the middle of it"))
    with contextlib.nullcontext() if error is ToolFailed else pytest.raises(error):
        through_starts(attempt)
    assert load(attempt.folder.case) == attempt.case


def test_no_start_is_begun_without_time(attempt, probed):
    clock = Clock()
    attempt = replace(attempt, run=Run(Settings(now=clock).for_run(20.0, clock()), PhaseClock(Lines())))
    probed.shows = lambda _: clock.move(400)
    assert "time of the run is used up" in through_starts(attempt).reason
    assert len(probed) == 1


@pytest.mark.parametrize(
    ("script", "probes"),
    [
        (lambda attempt: replace(attempt, repro_result=ReproResult(CASE, Repro("pass\n", None))), [30]),
        (lambda attempt: replace(attempt, error=NoRepro("it has no failure by itself")), [30, None]),
        (lambda _: {}["a slip of the tool"], [30, None]),
    ],
)
def test_a_graph_of_transforms_has_few_probes_ahead_of_its_script(attempt, probed, monkeypatch, script, probes):
    """The rest of them follows where no repro comes of the script."""
    begun, asked = replace(SUMMARY, stopped_because=STOPPED[Ending.MAX_PROBES]), []

    def reduce_in_child(_attempt, case, out, settings=None, *, doubtful=False):
        asked.append(settings.max_probes if settings is not None else None)
        save(case, RunFolder(out).minimal)
        return Reduced(begun if asked[-1] else SUMMARY, case, case)

    script_name = "reduce the script of a graph of transforms"
    monkeypatch.setattr(module, "STARTS", [start for start in STARTS if start.is_usual or start.name == script_name])
    monkeypatch.setattr(module, "_has_transforms", lambda _: True)
    monkeypatch.setattr(module, "is_of_script", lambda _: True)
    monkeypatch.setattr(module, "reduce_in_child", reduce_in_child)
    monkeypatch.setattr(module, "reduce_script_instead", script)
    after = through_starts(replace(attempt, error=None))
    assert asked == probes and after.fallbacks == ((script_name,) if after.repro is not None else ())
    assert (after.repro is not None) is (after.reduced.summary == begun) and after.folder.minimal.exists()


@pytest.mark.parametrize("has_repro", [True, False])
def test_a_later_start_stands_only_with_a_repro(attempt, probed, monkeypatch, has_repro):
    """The first reduction stays otherwise, in the attempt and in its folder."""
    first, later = Reduced(SUMMARY, attempt.case, attempt.case), replace(attempt.case, through_dynamo=True)
    save(attempt.case, attempt.folder.minimal)

    def change(attempt):
        save(later, attempt.folder.minimal)
        return replace(attempt, reduced=Reduced(SUMMARY, later, later))

    found = ReproResult(later, Repro("pass\n", None) if has_repro else None)
    monkeypatch.setattr(module, "search_for", lambda *_: SimpleNamespace(search=lambda: found))
    monkeypatch.setattr(module, "STARTS", (Start("another", "always", lambda _: True, change),))
    after = through_starts(replace(attempt, error=None, reduced=first, repro_result=ReproResult(attempt.case)))
    assert after.fallbacks == (("another",) if has_repro else ()) and (after.repro is not None) is has_repro
    assert after.reduced.minimal.through_dynamo is load(attempt.folder.minimal).through_dynamo is has_repro
    assert {path.name for path in attempt.folder.path.iterdir()} == {"case", "minimal"}


def test_without_time_the_repro_sets_all_variables_of_the_script(attempt, monkeypatch):
    """A backend may read one when it is imported, which the probes of a reduction do not show."""
    state = replace(attempt.case.state, environment=(("LATHE_SETTINGS", "strict"),))
    first = Reduced(SUMMARY, attempt.case, replace(attempt.case, state=state))
    save(attempt.case, attempt.folder.minimal)
    found = ReproResult(attempt.case, Repro("pass\n", None))
    monkeypatch.setattr(module, "search_for", lambda *_: SimpleNamespace(search=lambda: found))
    attempt.run.interrupted.set()
    after = through_starts(replace(attempt, error=None, reduced=first, case=first.source))
    assert after.repro is not None and load(after.folder.minimal).state.environment == state.environment
    assert "LATHE_SETTINGS" in after.reduced.summary.needs[0]


def test_each_start_has_a_name_of_its_own():
    """A report lists them, and what is left out is left out by name."""
    names = [start.name for start in STARTS]
    assert len(names) == len({*names}) and all(names)


def test_calls_ahead_come_with_and_without_a_pause(attempt, probed, monkeypatch):
    failing = SimpleNamespace(number=2, call=1, stage=None, unsaved="")
    call = SimpleNamespace(failing=failing, found=SimpleNamespace(captured=SimpleNamespace(folder=None)))
    monkeypatch.setattr(module, "read_calls_ahead", lambda *_where: (object(),))
    monkeypatch.setattr(module, "with_calls_ahead", lambda case, _calls: replace(case, before=(Call(times=2),)))
    monkeypatch.setattr(module, "is_only_live", lambda _: False)
    waited = replace(attempt.case, script=replace(attempt.case.script, waited=2.0))
    through_starts(replace(attempt, case=waited, call=call))
    pauses = [[call.pause for call in case.before] for case in probed]
    assert pauses[2:4] == [[0.0], [3.0]]


def test_a_later_call_may_need_an_earlier_one_with_other_values(attempt, probed):
    twice = replace(attempt.case, before=(Call(times=2),))
    through_starts(replace(attempt, case=twice))
    *_, inputs, parameters = probed
    assert [case.before for case in (inputs, parameters)] == [(Call(ones=Ones.INPUTS),), (Call(ones=Ones.ALL),)]
    assert inputs.calls == 1 and inputs.has_other_inputs and goes_through_dynamo(inputs)
