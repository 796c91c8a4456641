"""Ctrl-C at the moments of a run that no other test reaches: what is there by then stays, and is named."""

import pytest
from vocabulary import minified_here

import minifier.workflow.run as flow
from minifier.errors import StoppedAtOnce, StoppedEarly
from minifier.workflow import reduction, whole_script
from minifier.workflow.attempt import Attempt
from minifier.workflow.fallbacks import Step

pytestmark = [pytest.mark.timeout(200), pytest.mark.usefixtures("processes")]

SCRIPT = """
import torch


def refuse(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        raise RuntimeError("no lowering for tanh")
    return gm.forward


torch.compile(lambda x: torch.tanh(torch.sin(x)) + 1, backend=refuse)(torch.randn(2, 3))
"""


def interrupt(*_arguments):
    raise KeyboardInterrupt


def interrupted_at(monkeypatch, step):
    fall_back = flow.fall_back
    monkeypatch.setattr(
        flow, "fall_back", lambda state, at, run: (interrupt if at is step else fall_back)(state, at, run)
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "failing.py"
    path.write_text(SCRIPT)
    return path


def test_an_interrupt_of_the_last_fallbacks_leaves_the_verified_repro(script, tmp_path, monkeypatch):
    interrupted_at(monkeypatch, Step.END)
    done = minified_here(script, tmp_path, verify=1)
    assert done.repro is not None and done.verified == (1, 1) and (tmp_path / "out" / "result.json").exists()


def test_an_interrupt_between_two_reductions_says_how_to_go_on(script, tmp_path, monkeypatch):
    interrupted_at(monkeypatch, Step.REDUCE)
    with pytest.raises(AssertionError, match=r"StoppedEarly: interrupted during the reduction; the reduced .* goes on"):
        minified_here(script, tmp_path, verify=1)


def test_a_script_whose_verification_is_interrupted_is_kept_as_unverified(script, tmp_path, monkeypatch):
    monkeypatch.setattr(whole_script, "_verified", interrupt)
    with pytest.raises(AssertionError, match=r"StoppedEarly: .*kept as .*unverified\.py"):
        minified_here(script, tmp_path, verify=1, level="source")
    out = tmp_path / "out"
    assert (out / "unverified.py").exists() and not (out / "repro.py").exists()


@pytest.mark.parametrize("stops", [True, False], ids=["second Ctrl-C", "first Ctrl-C"])
def test_only_the_first_interrupt_of_another_reduction_is_got_around(stops, monkeypatch):
    error = StoppedAtOnce("interrupted twice") if stops else StoppedEarly("interrupted")

    def reduce(_attempt):
        raise error

    monkeypatch.setattr(reduction, "reduce", reduce)
    attempt = Attempt(run=None, folder=None, case=None)
    if stops:
        with pytest.raises(StoppedAtOnce):
            reduction.reduce_anew(attempt)
    else:
        assert reduction.reduce_anew(attempt).error is error
