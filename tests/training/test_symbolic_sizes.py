"""Backward graphs with symbolic sizes: what is needed of the symbols stays."""

import pytest
from scripts_of_training import HEAD
from vocabulary import source_of

pytestmark = pytest.mark.timeout(200)

TRAINED = source_of(
    """
    torch.compile(f, backend="{}", dynamic=True)(x, w).sum().backward()
    """
)


def aten_ops(case):
    return [node.target for node in case.graph.ops]


def test_a_failure_that_a_symbol_is_needed_for(bureau):
    captured = bureau.capture(HEAD + TRAINED.format("oddlib_backward_symbol"))
    failing = captured.failing[0]
    assert failing.stage.value == "backward-compile" and failing.forward == 1
    _summary, minimal = bureau.reduce(failing.number, timeout=120)
    assert aten_ops(minimal) == ["torch.ops.aten.tanh_backward.default"]
    assert any(item.meta.symbols for item in minimal.inputs if hasattr(item, "meta")) and minimal.symbolic is not None


@pytest.mark.soak
def test_a_failure_that_needs_no_symbol(bureau):
    captured = bureau.capture(HEAD + TRAINED.format("oddlib_trains"))
    _summary, minimal = bureau.reduce(captured.failing[0].number, timeout=120)
    assert aten_ops(minimal) == ["torch.ops.aten.tanh_backward.default"]
    assert minimal.symbolic is None
