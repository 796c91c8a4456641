"""Starting points for a Case that does not show its failure as it is: which, in which order, and what is reduced."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from case_samples import small_case
from vocabulary import Lines, source_of

from minifier.capturing.script import Program
from minifier.data.case import Call, Level, Ones
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import load, save
from minifier.data.case.symbolic_sizes import goes_through_dynamo, specialised
from minifier.data.settings import Settings
from minifier.errors import NoRepro, OtherMessage, StoppedEarly
from minifier.flow import premises as module
from minifier.flow import reduce_in_child
from minifier.flow.attempt import Attempt, Reduced, Run
from minifier.flow.folders import Asked
from minifier.flow.premises import premises, reduce_from_premises
from minifier.process.progress import PhaseClock
from minifier.reduction.check import FirstShown
from minifier.reduction.summary import Summary

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


def changed(attempt):
    return [(premise.replaces, premise.change(attempt.case)) for premise in premises(attempt)]


def test_imports_come_before_torch_compile(attempt):
    (_, effects), (_, every), (_, compiled) = changed(attempt)
    assert effects.backend.ahead == ("import acme.plugin",)
    assert every.backend.ahead == ("import torch", "import acme.plugin", "import json")
    assert compiled == replace(attempt.case, through_dynamo=True)


def test_the_aten_graph_comes_after_dynamos(attempt):
    save(replace(CASE, level=Level.AOT_FORWARD), attempt.folder.aten)
    found = changed(attempt)
    assert [replaces for replaces, _ in found] == [True, True, True, False]
    assert [case.level for _, case in found] == [Level.DYNAMO] * 3 + [Level.AOT_FORWARD]


def test_a_message_that_varies_comes_last_and_through_torch_compile(attempt):
    *_, (replaces, case) = changed(attempt.failed(OtherMessage("another message")))
    assert replaces and case.through_dynamo and case.failure.fingerprint.any_message


def test_symbols_go_through_torch_compile_anyway(attempt):
    attempt = replace(attempt, case=replace(small_case(), level=Level.DYNAMO))
    assert goes_through_dynamo(attempt.case) and not goes_through_dynamo(CASE)
    assert not any(case.through_dynamo for _, case in changed(attempt))


def test_an_aten_graph_is_not_compiled_as_a_function(attempt):
    attempt = replace(attempt, case=replace(attempt.case, level=Level.AOT_FORWARD))
    assert not any(case.through_dynamo for _, case in changed(attempt))


def succeeding(attempt):
    return attempt.succeeded(Reduced(SUMMARY, attempt.case, attempt.case))


def shown_at(monkeypatch, *positions):
    """Let probes show the failure at these positions of what is left; return the Cases that were probed."""
    probed, left = [], list(positions)

    def find(_attempt, cases, number):
        probed.append(list(cases))
        assert len(probed[-1]) == number
        position = left.pop(0)
        count = number if position < 0 else position + 1
        return FirstShown(position, {"total": count, "pass": count - (position >= 0), "same": int(position >= 0)})

    monkeypatch.setattr(module, "find_first_shown", find)
    return probed


def test_the_first_that_shows_the_failure_is_reduced_and_named(attempt, monkeypatch):
    probed = shown_at(monkeypatch, 2)
    monkeypatch.setattr(reduce_in_child, "reduce", succeeding)
    after = reduce_from_premises(attempt)
    assert len(probed) == 1 and [case.through_dynamo for case in probed[0]] == [False, False, True]
    assert after.error is None and after.case.through_dynamo and load(after.folder.case).through_dynamo
    assert len(after.fallbacks) == 1 and "torch.compile" in after.fallbacks[0]
    assert after.reduced.summary.probes == {"total": 8, "same": 4, "pass": 4}


def test_the_next_is_probed_if_the_reduction_fails_after_all(attempt, monkeypatch):
    def reduce(again):
        if again.case.through_dynamo:
            return succeeding(again)
        return again.failed(NoRepro("not again"))

    probed = shown_at(monkeypatch, 0, 1)
    monkeypatch.setattr(reduce_in_child, "reduce", reduce)
    after = reduce_from_premises(attempt)
    assert [len(cases) for cases in probed] == [3, 2]
    assert after.reduced is not None and after.case.through_dynamo and after.case.backend.ahead == ()


def test_without_any_the_attempt_and_its_case_are_as_before(attempt, monkeypatch):
    shown_at(monkeypatch, -1)
    assert reduce_from_premises(attempt) == attempt
    assert load(attempt.folder.case) == attempt.case


def test_an_error_of_the_tool_is_the_reason_for_trying_others(attempt, monkeypatch):
    ui, error = Lines(), "Traceback (most recent call last):\nLookupError: a slip of the tool\n"
    save(replace(CASE, level=Level.AOT_FORWARD), attempt.folder.aten)
    shown_at(monkeypatch, -1)
    reduce_from_premises(replace(attempt, error=None, run=Run(Settings(), PhaseClock(ui), errors=[error])))
    assert "a slip of the tool" in ui.lines[0] and "None" not in "".join(ui.lines)


def test_an_interrupt_leaves_the_case_as_captured(attempt, monkeypatch):
    def interrupted(_attempt):
        raise StoppedEarly("interrupted")

    shown_at(monkeypatch, 2)
    monkeypatch.setattr(reduce_in_child, "reduce", interrupted)
    with pytest.raises(StoppedEarly):
        reduce_from_premises(attempt)
    assert load(attempt.folder.case) == attempt.case


def test_calls_ahead_come_with_and_without_a_pause(attempt, monkeypatch):
    captured = SimpleNamespace(path=())
    call = SimpleNamespace(
        unsaved="", failing=SimpleNamespace(number=2, call=1), found=SimpleNamespace(graphs=None, captured=captured)
    )
    monkeypatch.setattr(module, "read_calls_ahead", lambda *_where: (object(),))
    monkeypatch.setattr(module, "with_calls_ahead", lambda case, _calls: replace(case, before=(Call(times=2),)))
    waited = replace(attempt.case, script=replace(attempt.case.script, waited=2.0))
    attempt = replace(attempt, case=waited, call=call)
    pauses = [[call.pause for call in case.before] for _, case in changed(attempt)]
    assert pauses[2:4] == [[0.0], [3.0]]


def test_a_later_call_may_need_an_earlier_one_with_other_values(attempt):
    twice = replace(attempt.case, before=(Call(times=2),))
    *_, inputs, parameters = [case for _, case in changed(replace(attempt, case=twice))]
    assert [case.before for case in (inputs, parameters)] == [(Call(ones=Ones.INPUTS),), (Call(ones=Ones.ALL),)]
    assert inputs.calls == 1 and inputs.has_other_inputs and goes_through_dynamo(inputs)
