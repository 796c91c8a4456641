"""Failures in backward passes, as they are captured: whose, with which graph and inputs; and one stopped reduction."""

from dataclasses import replace

import pytest
from layers import sampled
from scripts_of_training import HEAD, one_step
from vocabulary import source_of

from minifier.data.case import Drawn, Stored

pytestmark = pytest.mark.timeout(120)


def script(text):
    return HEAD + source_of(text)


def facts(failing):
    fingerprint = failing.failure.fingerprint
    return fingerprint.stage.value, fingerprint.kind.value, failing.number, failing.forward, failing.call


def test_an_exception_while_the_backward_graph_is_compiled(bureau):
    captured = bureau.capture(one_step("oddlib_trains"))
    (failing,) = captured.failing
    assert facts(failing) == ("backward-compile", "exception", 2, 1, 0)
    forward, backward = bureau.case(1), bureau.case(2)
    assert backward.graph == forward.graph and backward.backward and not forward.backward
    assert {item.source for item in backward.inputs} == {Drawn("randn")} and captured.script_status == 1


def test_the_inputs_of_a_backward_pass_are_those_of_its_graph_and_come_from_a_second_run(bureau):
    captured = bureau.capture(one_step("oddlib_trains", stage="run", empties=True))
    (failing,) = captured.failing
    assert not failing.inputs_lost and bureau.case(2).tensors is None
    seen, case, _ = bureau.capture_again(replace(captured, failing=(replace(failing, inputs_lost="yes"),)))
    assert facts(seen) == ("backward-run", "exception", 2, 1, 1)
    assert case.backward and {item.source for item in case.inputs} == {Stored("l_x_"), Stored("l_w_")}


def test_inputs_are_not_taken_for_those_of_a_backward_pass_that_may_be_of_another_call(bureau):
    text = "g = torch.compile(f, backend='oddlib_trains', options={'stage': 'run'})\n"
    captured = bureau.capture(script(f"{text}(g(x, w) + g(x + 1, w)).sum().backward()\n"))
    (failing,) = captured.failing
    _, case, said = bureau.capture_again(replace(captured, failing=(replace(failing, inputs_lost="yes"),)))
    assert case.tensors is None and "which call of its graph the backward pass is of is not known" in said


ENDS = {"SIGSEGV": "signal", "exit": "exit", "sleep": "timeout", "hoard": "out-of-memory"}


@pytest.mark.parametrize(("stage", "how"), sampled([(stage, how) for how in ENDS for stage in ("compile", "run")]))
def test_an_end_of_the_process(bureau, stage, how):
    terms = {"memory": 2**29} if how == "hoard" else {}
    captured = bureau.capture(one_step("oddlib_trains", stage=stage, how=how), **terms)
    (failing,) = captured.failing
    assert facts(failing) == (f"backward-{stage}", ENDS[how], 2, 1, int(stage == "run"))
    if how == "sleep":
        assert "in end\n    signal.pause()" in failing.failure.traceback
    elif how != "hoard" and stage == "run":
        seen, case, _ = bureau.capture_again(captured)
        assert failing.inputs_lost and facts(seen) == facts(failing) and case.tensors is not None


OF_SCRIPTS = {
    "a call of several": (
        """
        g = torch.compile(f, backend="oddlib_trains", options={"stage": "run", "call": 2})
        for step in range(3):
            g(x + step, w).pow(2).sum().backward()
        """,
        ("backward-run", "exception", 2, 1, 2),
    ),
    "one of three modules, whose backward passes begin with the last": (
        """
        one = torch.compile(torch.sigmoid, backend="oddlib_trains")
        other = torch.compile(f, backend="oddlib_trains")
        three = torch.compile(torch.exp, backend="oddlib_trains")
        three(other(one(x), w)).sum().backward()
        """,
        ("backward-compile", "exception", 5, 2, 0),
    ),
    "a backward pass that is made twice": (
        """
        y = torch.compile(f, backend="oddlib_trains", options={"stage": "run", "call": 2})(x, w).sum()
        y.backward(retain_graph=True)
        y.backward()
        """,
        ("backward-run", "exception", 2, 1, 2),
    ),
    "checkpointing around a compiled function": (
        """
        from torch.utils.checkpoint import checkpoint
        g = torch.compile(f, backend="oddlib_trains", options={"stage": "run"})
        checkpoint(g, x, w, use_reentrant=False).sum().backward()
        """,
        None,
    ),
    "a backward pass in another thread": (
        """
        import threading
        y = torch.compile(f, backend="oddlib_trains")(x, w).sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
        """,
        ("backward-compile", "exception", 2, 1, 0),
    ),
}


@pytest.mark.parametrize("what", sampled(OF_SCRIPTS, 2))
def test_a_failure_of_a_training(bureau, what):
    text, expected = OF_SCRIPTS[what]
    (failing,) = bureau.capture(script(text)).failing
    assert facts(failing) == expected or (expected is None and failing.stage.value == "backward-run")
    assert failing.forward is not None


@pytest.mark.soak
def test_a_reduction_of_a_backward_pass_that_was_stopped_goes_on(project):
    done = project.run(one_step("oddlib_trains"), given=["--max-probes", "3"])
    assert done.code == 3 and done.result["failure"]["stage"] == "backward-compile" and done.ops[1] > 2, done.stderr
    done = project.minify("reduce", "--verify", "1", project.out)
    assert (done.code, done.ops[1], done.result["level"]) == (0, 1, "dynamo"), done.stderr
