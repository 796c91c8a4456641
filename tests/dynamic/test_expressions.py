"""Expressions of symbolic sizes, as torch prints them."""

import pytest
import torch
from torch._dynamo.source import LocalSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from minifier.data.case.expressions import value_of

VALUES = {"s0": 7, "s17": 4, "u2": 5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("s0", 7),
        ("2*s0 + 1", 15),
        ("-s0", -7),
        ("((s0 + s17)//2)", 5),
        ("s0**2 - s17", 45),
        ("Max(2, s17, 3)", 4),
        ("Min(s0, s17)", 4),
        ("Mod(s0, s17)", 3),
        ("PythonMod(s0, 4)", 3),
        ("FloorDiv(s0, 2)", 3),
        ("3*(u2//2)", 6),
        ("s99 + 1", None),
        ("__import__('os').getpid()", None),
        ("s0.real", None),
        ("[s0]", None),
        ("s0 +", None),
        ("s0 // (s17 - 4)", None),
        ("Max[s0]", None),
    ],
)
def test_values(text, value):
    assert value_of(text, VALUES) == value


def test_torch_agrees():
    env = ShapeEnv()
    s0, s1 = (
        env.create_unspecified_symint_and_symbol(hint, LocalSource(name), DimDynamic.DYNAMIC)
        for name, hint in (("x", 7), ("y", 4))
    )
    values = {str(s0): 7, str(s1): 4}
    for number in (2 * s0 + 1, (s0 + s1) // 2, s0 % 4, s0 * s0 - s1, torch.sym_max(s0, s1)):
        assert value_of(str(number), values) == number.node.hint
