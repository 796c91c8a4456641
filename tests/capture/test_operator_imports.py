"""How a repro gets the operators that its graph calls."""

import pytest

from minifier.capturing import backend_reference
from minifier.capturing.backend_reference import operator_imports

OP = "torch.ops.late.same.default"


@pytest.mark.parametrize(
    ("stack", "imports", "defined"),
    [
        ((), (), ()),
        ((("late.ops", "<module>"), ("late", "<module>"), ("__main__", "<module>")), ("import late",), ()),
        ((("torch._late.ops", "<module>"), ("torch._late", "f")), ("import torch._late.ops",), ()),
        ((("late", "define"), ("__main__", "<module>")), (), ("late::same",)),
    ],
    ids=["as torch begins", "a package", "a module of torch that compiling imports", "the script"],
)
def test_what_defined_an_operator_is_imported(monkeypatch, stack, imports, defined):
    monkeypatch.setattr(backend_reference, "operator_stack", lambda name: stack if name == "late::same" else ())
    assert operator_imports([OP, "torch.ops.aten.add.Tensor", "torch.sin"]) == (imports, defined)
