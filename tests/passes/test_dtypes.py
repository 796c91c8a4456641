"""Dtypes to those that torch takes by default."""

import pytest
from case_text import case_of
from pass_rows import is_shown, made, names, pass_named

MIXED = """
    x: bfloat16[2, 3]
    i: int32[2]
    y = x.to(torch.bfloat16)
    z: float64[2, 3] = torch.add(y, i, 2, dtype=torch.float64)
    return z
"""


@pytest.mark.parametrize(
    ("dtype", "default"),
    [("bfloat16", "float32"), ("float8_e4m3fn", "float32"), ("complex128", "complex64"), ("int8", "int64")],
)
def test_each_kind_of_number_has_its_default(dtype, default):
    case = case_of(f"x: {dtype}[2]\ny = torch.tanh(x)\nreturn y")
    (plainer, *_) = made("dtypes", case)[dtype]
    assert is_shown(plainer, f"x: {default}[2]\ny = torch.tanh(x)\nreturn y")
    assert names("dtypes", plainer) == []


def test_bools_stay():
    assert names("dtypes", case_of("x: bool[2]\ny = torch.tanh(x)\nreturn y")) == []


def test_inputs_and_arguments_change_together_or_else_alone():
    case = case_of(MIXED)
    found = made("dtypes", case)
    assert list(found) == ["bfloat16", "float64", "int32"]
    both, inputs, arguments = found["bfloat16"]
    assert is_shown(both, MIXED.replace("bfloat16", "float32"))
    assert is_shown(inputs, MIXED.replace("x: bfloat16", "x: float32"))
    assert is_shown(arguments, MIXED.replace("torch.bfloat16", "torch.float32"))
    assert [len(rung) for row in pass_named("dtypes").rows(case) for rung in row.rungs] == [1, 2] * 3
    assert [
        is_shown(each, MIXED.replace("torch.float64", "torch.float32"))
        for each in (found["float64"][0], found["float64"][2])
    ]
    assert found["float64"][1] is case
    assert found["int32"][2] == case and is_shown(found["int32"][0], MIXED.replace("int32", "int64"))
    assert inputs.inputs[0].meta == inputs.graph.node("x").value
