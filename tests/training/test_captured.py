"""Failures in backward passes, as they are captured: whose they are, with which graph and inputs."""

import pytest
import torch
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


def targets(case):
    return {node.target.rpartition(".")[0].rpartition(".")[2] for node in case.graph.ops}


def test_an_exception_while_the_backward_graph_is_compiled(bureau):
    captured = bureau.capture(one_step("oddlib_trains"))
    (failing,) = captured.failing
    assert facts(failing) == ("backward-compile", "exception", 2, 1, 0)
    case = bureau.case(2)
    assert case.level.value == "aot-backward" and "tanh_backward" in targets(case)
    tangents = StoredTensors(case.tensors).get("tangents_1")
    assert torch.equal(tangents, torch.ones(4, 8)) and case.inputs[-1].name == "tangents_1"
    assert bureau.case(1).level.value == "dynamo" and captured.script_status == 1


def test_an_exception_while_the_backward_graph_runs(bureau):
    (failing,) = bureau.capture(one_step("oddlib_trains", stage="run")).failing
    assert facts(failing) == ("backward-run", "exception", 2, 1, 1) and not failing.inputs_lost
    assert bureau.case(2).tensors is not None


def test_arguments_that_a_compiled_backward_has_freed_come_from_a_second_run(bureau):
    captured = bureau.capture(one_step("oddlib_trains", stage="run", empties=True))
    assert captured.failing[0].inputs_lost and bureau.case(2).tensors is None
    seen, case, said = bureau.capture_again(captured)
    assert facts(seen) == ("backward-run", "exception", 2, 1, 1) and "running the script again" in said
    assert torch.equal(StoredTensors(case.tensors).get("tangents_1"), torch.ones(4, 8))


@pytest.mark.parametrize("stage", ["compile", "run"])
@pytest.mark.parametrize("how", ["SIGSEGV", "exit"])
def test_a_death(bureau, stage, how):
    captured = bureau.capture(one_step("oddlib_trains", stage=stage, how=how))
    (failing,) = captured.failing
    kind, message = ("exit", "exit status 7") if how == "exit" else ("signal", "SIGSEGV")
    assert facts(failing) == (f"backward-{stage}", kind, 2, 1, int(stage == "run"))
    assert failing.failure.message == message and bool(failing.inputs_lost) == (stage == "run")
    if stage == "run":
        seen, case, _ = bureau.capture_again(captured)
        assert facts(seen) == facts(failing) and case.tensors is not None


@pytest.mark.parametrize("stage", ["compile", "run"])
def test_a_hang(bureau, stage):
    (failing,) = bureau.capture(one_step("oddlib_trains", stage=stage, how="sleep")).failing
    assert facts(failing) == (f"backward-{stage}", "timeout", 2, 1, int(stage == "run"))
    assert "in end\n    signal.pause()" in failing.traceback


@pytest.mark.parametrize("stage", ["compile", "run"])
def test_a_lack_of_memory(bureau, stage):
    captured = bureau.capture(one_step("oddlib_trains", stage=stage, how="hoard"), memory=2**29)
    (failing,) = captured.failing
    assert facts(failing) == (f"backward-{stage}", "out-of-memory", 2, 1, int(stage == "run"))


def test_the_second_step(bureau):
    captured = bureau.capture(
        script(
            """
            g = torch.compile(f, backend="oddlib_trains", options={"stage": "run", "call": 2})
            optimizer = torch.optim.SGD([w], lr=0.1)
            for step in range(3):
                optimizer.zero_grad()
                g(x + step, w).pow(2).sum().backward()
                optimizer.step()
            """
        )
    )
    (failing,) = captured.failing
    assert facts(failing) == ("backward-run", "exception", 2, 1, 2) and bureau.case(2).calls == 2


def test_of_two_modules_the_one_that_fails(bureau):
    captured = bureau.capture(
        script(
            """
            one = torch.compile(torch.sigmoid, backend="oddlib_trains")
            other = torch.compile(f, backend="oddlib_trains")
            three = torch.compile(torch.exp, backend="oddlib_trains")
            three(other(one(x), w)).sum().backward()
            """
        )
    )
    (failing,) = captured.failing
    # The backward pass begins with the last: its graph is the fourth, that of f the fifth.
    assert facts(failing) == ("backward-compile", "exception", 5, 2, 0)


def test_a_backward_pass_that_is_made_twice(bureau):
    captured = bureau.capture(
        script(
            """
            y = torch.compile(f, backend="oddlib_trains", options={"stage": "run", "call": 2})(x, w).sum()
            y.backward(retain_graph=True)
            y.backward()
            """
        )
    )
    (failing,) = captured.failing
    assert facts(failing) == ("backward-run", "exception", 2, 1, 2)


def test_checkpointing_around_a_compiled_function(bureau):
    captured = bureau.capture(
        script(
            """
            from torch.utils.checkpoint import checkpoint
            g = torch.compile(f, backend="oddlib_trains", options={"stage": "run"})
            checkpoint(g, x, w, use_reentrant=False).sum().backward()
            """
        )
    )
    (failing,) = captured.failing
    assert failing.stage.value == "backward-run" and failing.forward is not None


def test_a_backward_pass_in_another_thread(bureau):
    captured = bureau.capture(
        script(
            """
            import threading
            y = torch.compile(f, backend="oddlib_trains")(x, w).sum()
            thread = threading.Thread(target=y.backward)
            thread.start()
            thread.join()
            """
        )
    )
    (failing,) = captured.failing
    assert facts(failing) == ("backward-compile", "exception", 2, 1, 0)


def test_bf16(bureau):
    captured = bureau.capture(
        script(
            """
            x, w = x.bfloat16(), w.detach().bfloat16().requires_grad_()
            torch.compile(f, backend="oddlib_trains")(x, w).sum().backward()
            """
        )
    )
    assert facts(captured.failing[0]) == ("backward-compile", "exception", 2, 1, 0)
    assert bureau.case(2).inputs[-1].meta.dtype == "bfloat16"


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
