"""What the inputs of a failing call were: inference tensors, results of other ops, views of one storage."""

import pytest
from forked_script import run_forked
from layers import sampled
from vocabulary import CASES

from minifier.repro.emit.repro import Template, write_repro
from minifier.repro.verify import Conditions

pytestmark = pytest.mark.timeout(200)


def script(backend, setting, call):
    return f"""
import torch
import oddlib


def f(x, y):
    return torch.cos(torch.tanh(torch.sin(x))) + y


f = torch.compile(f, backend="{backend}")
{setting}
{call}
"""


CALLS = {
    "an inference tensor": (
        script(
            "oddlib_inference_tensor",
            "with torch.inference_mode():\n    x = torch.randn(2, 3)",
            "with torch.inference_mode():\n    f(x, torch.ones(2, 3))",
        ),
        "with torch.inference_mode():\n    x = torch.randn(1)\n",
    ),
    "an inference tensor outside": (
        script(
            "oddlib_inference_tensor",
            "with torch.inference_mode():\n    x = torch.randn(2, 3)",
            "f(x, torch.ones(2, 3))",
        ),
        "with torch.inference_mode():\n    x = torch.randn(1)\n",
    ),
    "not a leaf": (
        script("oddlib_not_a_leaf", "x = torch.randn(2, 3, requires_grad=True) * 2", "f(x, torch.ones(2, 3))"),
        "requires_grad=True).clone()",
    ),
    "not a leaf, expanded": (
        script("oddlib_expanded_gradient", "x = torch.randn(1, 3, requires_grad=True).expand(2, 3)", "f(x, x)"),
        ".as_strided((1,), (0,))).requires_grad_().clone()",
    ),
    "one storage": (
        script("oddlib_overlapping", "x = torch.randn(12)", "f(x[:6], x[3:9])"),
        "base[1]",
    ),
}


@pytest.mark.parametrize("kind", sampled(CALLS, 8))
def test_an_input_is_what_the_failure_needs_it_to_be(bureau, tmp_path, kind):
    text, written = CALLS[kind]
    captured = bureau.capture(text)
    assert len(captured.failing) == 1, captured
    summary, case = bureau.reduce()
    assert summary.one_minimal, summary
    repro = write_repro(case, Template.COMPILE_FUNCTION)
    assert written in repro.text, repro.text
    path = repro.write(tmp_path / "repro")
    run = run_forked(path, case.failure.fingerprint, path=[str(CASES)])
    assert Conditions(case.failure.fingerprint, 60).are_met(run), f"{repro.text}\n{run.output}"


@pytest.mark.soak
def test_inference_tensors_that_the_failure_does_not_need_are_made_as_others(bureau):
    bureau.capture(
        script(
            "oddlib_no_grad",
            "with torch.inference_mode():\n    x = torch.randn(2, 3)",
            "with torch.inference_mode():\n    f(x, torch.ones(2, 3))",
        )
    )
    assert bureau.case().inputs[0].inference and bureau.case().state.inference
    _, case = bureau.reduce()
    assert not any(item.inference for item in case.inputs)
    assert (case.state.grad, case.state.inference) == (False, False)
