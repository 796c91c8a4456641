"""Expressions of symbolic sizes, as torch prints them."""

import pytest
import torch

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
    ],
)
def test_values(text, value):
    assert value_of(text, VALUES) == value


def test_torch_agrees():
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from minifier.torch_side.torch_private.graphs import SymbolicSizes

    sizes = SymbolicSizes()
    assert isinstance(sizes.env, ShapeEnv)
    s0, s1 = sizes.size("s0", 7, duck=False), sizes.size("s1", 4, duck=False)
    made = [2 * s0 + 1, (s0 + s1) // 2, s0 % 4, s0 * s0 - s1, torch.sym_max(s0, s1)]
    for number in made:
        assert value_of(str(number), {"s0": 7, "s1": 4}) == number.node.hint
        again = value_of(str(number), {"s0": s0, "s1": s1}, {"Max": torch.sym_max})
        assert str(again) == str(number)
