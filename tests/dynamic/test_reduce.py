"""Failures that need a symbolic size, reduced to the one op that they are about."""

import pytest
from layers import sampled

from minifier.data.case import Symbolic

pytestmark = pytest.mark.timeout(200)

MODEL = """
import oddlib, torch

def f(x, y):
    z = torch.cat([torch.sin(x), y]).cos()
    z = z + z.sum(0) * x.shape[0]
    z = torch.tanh(z)
    return torch.relu(z).reshape(z.shape[0] * z.shape[1]) * y.shape[0]

"""
CALLS = {
    Symbolic.GIVEN: ("torch.compile(f, backend='{}', dynamic=True)(torch.ones(4, 3), torch.ones(4, 3))", 1),
    Symbolic.MARKED: (
        "x = torch.ones(4, 3)\ntorch._dynamo.mark_dynamic(x, 0)\ntorch.compile(f, backend='{}')(x, torch.ones(5, 3))",
        1,
    ),
    Symbolic.AUTOMATIC: (
        "c = torch.compile(f, backend='{}')\n"
        "c(torch.ones(4, 3), torch.ones(5, 3))\n"
        "c(torch.ones(6, 3), torch.ones(7, 3))",
        2,
    ),
}


def reduced(bureau, origin, backend):
    call, number = CALLS[origin]
    bureau.capture(MODEL + call.format(backend))
    summary, case = bureau.reduce(number, timeout=150)
    return summary, case


@pytest.mark.parametrize("origin", sampled(CALLS))
def test_one_op_with_a_symbol(bureau, origin):
    summary, case = reduced(bureau, origin, "oddlib_symbol")
    assert [node.target for node in case.graph.ops] == ["torch.tanh"] and summary.one_minimal
    assert case.symbolic is origin and any(case.inputs[-1].meta.symbols)
    assert [s.name for s in case.symbols] == [i.symbol for i in case.inputs[:-1]]


def test_one_op_at_run_time_with_recorded_values(bureau):
    _, case = reduced(bureau, Symbolic.AUTOMATIC, "oddlib_symbol_at_run")
    assert [node.target for node in case.graph.ops] == ["torch.tanh"] and case.symbolic is Symbolic.AUTOMATIC


def test_a_failure_that_needs_no_symbol_loses_it(bureau):
    _, case = reduced(bureau, Symbolic.GIVEN, "oddlib_tanh")
    assert [node.target for node in case.graph.ops] == ["torch.tanh"]
    assert case.symbolic is None and len(case.inputs) == 1 and case.backend.dynamic is None


@pytest.mark.soak
def test_a_static_case_is_static_for_aotautograd(bureau):
    """The ATen graph of a probe has symbols only where Dynamo's had: here the failure needs that it has none."""
    bureau.capture(
        """
        import oddlib, torch
        torch.compile(lambda x: torch.tanh(torch.sin(x)), backend="oddlib_aten_static")(torch.ones(4, 3))
        """
    )
    _summary, case = bureau.reduce()
    assert [node.target for node in case.graph.ops] == ["torch.tanh"]


@pytest.mark.usefixtures("soak")
def test_sizes_that_come_from_values_keep_the_ops_that_make_them(bureau):
    bureau.capture(
        """
        import oddlib, torch
        torch._dynamo.config.capture_scalar_outputs = True
        torch._dynamo.config.capture_dynamic_output_shape_ops = True

        def g(x, b):
            x = torch.sin(x)
            z = torch.nonzero(x > 0) * 2
            w = torch.zeros(z.shape[0], 3)
            return torch.cos(x), torch.abs(z), torch.tanh(w)

        torch.compile(g, backend="oddlib_aten_unbacked")(torch.ones(4, 16), torch.tensor([3, 9]))
        """
    )
    summary, case = bureau.reduce(timeout=150)
    assert {"torch.nonzero", "torch.tanh", "torch.zeros"} <= {node.target for node in case.graph.ops}
    assert summary.ops_after <= 4 and summary.one_minimal
    kept = {key for _, key, _ in case.state.config}
    assert "capture_dynamic_output_shape_ops" in kept
