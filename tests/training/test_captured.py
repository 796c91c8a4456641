"""Failures in backward passes, as they are captured: whose they are, with which graph and inputs."""

import pytest
import torch
from layers import sampled
from scripts_of_training import HEAD, one_step
from vocabulary import source_of

from minifier.data.case.store import load
from minifier.torch_side.fx.tensors import StoredTensors

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
    case = bureau.case(2)
    assert case.level.value == "aot-backward" and any("tanh_backward" in node.target for node in case.graph.ops)
    tangents = StoredTensors(case.tensors).get("tangents_1")
    assert torch.equal(tangents, torch.ones(4, 8)) and case.inputs[-1].name == "tangents_1"
    assert bureau.case(1).level.value == "dynamo" and captured.script_status == 1


def test_arguments_that_a_compiled_backward_has_freed_come_from_a_second_run(bureau):
    captured = bureau.capture(one_step("oddlib_trains", stage="run", empties=True))
    assert captured.failing[0].inputs_lost and bureau.case(2).tensors is None
    seen, case, said = bureau.capture_again(captured)
    assert facts(seen) == ("backward-run", "exception", 2, 1, 1) and "running the script again" in said
    assert torch.equal(StoredTensors(case.tensors).get("tangents_1"), torch.ones(4, 8))


ENDS = {"SIGSEGV": "signal", "exit": "exit", "sleep": "timeout", "hoard": "out-of-memory"}


@pytest.mark.parametrize(("stage", "how"), sampled([(stage, how) for how in ENDS for stage in ("compile", "run")]))
def test_an_end_of_the_process(bureau, stage, how):
    terms = {"memory": 2**29} if how == "hoard" else {}
    captured = bureau.capture(one_step("oddlib_trains", stage=stage, how=how), **terms)
    (failing,) = captured.failing
    assert facts(failing) == (f"backward-{stage}", ENDS[how], 2, 1, int(stage == "run"))
    if how == "sleep":
        assert "in end\n    signal.pause()" in failing.traceback
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


def test_an_aten_graph_that_holds_tensors_is_kept_with_them_or_not_at_all(bureau):
    captured = bureau.capture(
        """
        import torch
        from torch._dynamo.backends.common import aot_autograd

        def refuse(gm, inputs):
            raise ValueError("no table")

        @torch.compile(backend=aot_autograd(fw_compiler=refuse))
        def fn(x):
            y = x.clone()
            y[:, 1:2] = 0.5
            return y * torch.tensor([1.0, 2.0])

        fn(torch.ones(3, 2))
        """
    )
    assert len(captured.failing) == 1
    place = bureau.graphs / "1" / "aten"
    assert not (place / "case.json").exists() or load(place).graph.ops
