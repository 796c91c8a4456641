"""Symbolic sizes, exactly: which there are, what is written into the graph, and what is left of them."""

from dataclasses import replace

import pytest
from case_text import case_of
from pass_rows import is_shown

from minifier.data.case import Case, Scalar, ScalarInput, Symbolic
from minifier.data.case.calls import as_function
from minifier.data.case.expressions import dynamic_dims, floats_in_tensors
from minifier.data.case.symbolic_sizes import as_dynamo_would, specialised


def dynamos(text, **changes) -> Case:
    return as_dynamo_would(case_of(text, **changes))


@pytest.mark.parametrize(
    ("size", "origin", "dims"),
    [
        ('4 @ "s0"', Symbolic.AUTOMATIC, [0]),
        ('8 @ "2*s0"', Symbolic.MARKED, [0]),
        ("4", Symbolic.AUTOMATIC, []),
        ("4", Symbolic.GIVEN, [0]),
        ('1 @ "s0"', Symbolic.GIVEN, []),
        ('0 @ "s0"', Symbolic.AUTOMATIC, []),
        ('4 @ "u0"', Symbolic.AUTOMATIC, []),
    ],
)
def test_sizes_of_nought_and_one_and_those_that_are_unbacked_are_fixed(size, origin, dims):
    case = case_of(f"x: float32[{size}]\ny = torch.sin(x)\nreturn y,", symbolic=origin)
    assert dynamic_dims(case, case.inputs[0]) == dims
    assert not dynamic_dims(case, replace(case.inputs[0], parameter=True))


def numbers(number, origin):
    """A number that is no size of the input."""
    text = f'n: {number}\nx: float32[4 @ "s0"]\nz = torch.f(x, n)\nreturn z,'
    return dynamos(text, symbolic=origin)


SIZED = 'x: float32[4 @ "s0"]\n'


@pytest.mark.parametrize(
    ("number", "origin", "expected"),
    [
        ('7 @ "s1"', Symbolic.GIVEN, f'n: 7 @ "s1"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('7 @ "s1"', Symbolic.AUTOMATIC, f'n: 7 @ "s1"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('7 @ "s1"', Symbolic.MARKED, f"{SIZED}z = torch.f(x, 7)\nreturn z,"),
        ('7 @ "2*s1"', Symbolic.AUTOMATIC, f'n: 7 @ "2*s1"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('7 @ "u0"', Symbolic.AUTOMATIC, f"{SIZED}z = torch.f(x, 7)\nreturn z,"),
        ('7 @ "u0"', Symbolic.GIVEN, f'n: 7 @ "u0"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('0.5 @ "zf1"', Symbolic.AUTOMATIC, f"{SIZED}z = torch.f(x, 0.5)\nreturn z,"),
        ("7", Symbolic.AUTOMATIC, f"{SIZED}z = torch.f(x, 7)\nreturn z,"),
        ("None", Symbolic.AUTOMATIC, f"n: None\n{SIZED}z = torch.f(x, n)\nreturn z,"),
        ('None @ "u0"', Symbolic.AUTOMATIC, f"n: None\n{SIZED}z = torch.f(x, n)\nreturn z,"),
        ('4 @ "s0"', Symbolic.AUTOMATIC, 'n: 4 @ "s0"\nx: float32[4 @ "s0"]\nz = torch.f(x, n)\nreturn z,'),
    ],
)
def test_a_number_is_an_argument_or_a_literal(number, origin, expected):
    assert is_shown(numbers(number, origin), expected)


def test_two_numbers_of_one_size_become_one():
    case = dynamos('a: 4 @ "s0"\nb: 4 @ "s0"\nx: float32[4 @ "s0"]\nz = torch.f(x, a, b)\nreturn z,')
    assert is_shown(case, 'a: 4 @ "s0"\nx: float32[4 @ "s0"]\nz = torch.f(x, a, a)\nreturn z,')


SHAPED = """
    s0: 4 @ "s0"
    x: float32[4 @ "s0", 3]
    k: 5
    n: 8 @ "2*s0" = operator.mul(s0, 2)
    u: None @ "u0" = torch.item(x)
    f: 0.5 @ "s0/8" = operator.truediv(s0, 8)
    shape: (4 @ "s0", 3) = torch.size(x)
    part: (4 @ "s0", 3) = torch.size(x)
    both: (4 @ "s0", float32[2]) = torch.f(x)
    mixed: (4 @ "s0", float32[2]) = torch.h(x)
    y: float32[8 @ "2*s0", 0 @ "u0"] = torch.g(x, n, u, k, f, part, both)
    return y,
"""


def test_sizes_that_are_known_are_written_into_the_graph():
    case = specialised(case_of(SHAPED, symbolic=Symbolic.AUTOMATIC))
    expected = """
        x: float32[4, 3]
        k: 5
        u = torch.item(x)
        part = torch.size(x)
        both = torch.f(x)
        mixed = torch.h(x)
        y = torch.g(x, 8, u, k, 0.5, part, both)
        return y,
    """
    assert is_shown(case, expected)
    assert case.graph.node("y").value.symbols == (None, "u0") and case.graph.node("y").value.shape == (8, 0)
    assert case.graph.node("x").value.symbols == () == case.inputs[0].meta.symbols
    assert (case.symbolic, case.backend.dynamic) == (None, None)


# What Dynamo adds to a graph for symbolic numbers, and a function of the user's does not have.

NORM = """
x: float32[4 @ "s0", 3]
eps: float64[()]
item: 1e-05 = eps.item()
y: float32[4 @ "s0", 3] = torch.f(x, item)
return y,
"""


def dynamic(text):
    return case_of(text, symbolic=Symbolic.GIVEN)


def test_a_float_that_is_passed_in_a_tensor_is_a_number():
    case = as_function(dynamic(NORM))
    assert is_shown(case, 'x: float32[4 @ "s0", 3]\neps: 1e-05\ny: float32[4 @ "s0", 3] = torch.f(x, eps)\nreturn y,')
    assert case.inputs[1] == ScalarInput("eps", 1e-05) and floats_in_tensors(dynamic(NORM)) == {"eps": Scalar(1e-05)}


def test_without_symbols_it_is_written_into_the_graph():
    assert is_shown(specialised(dynamic(NORM)), "x: float32[4, 3]\ny: float32[4, 3] = torch.f(x, 1e-05)\nreturn y,")


def test_a_tensor_that_another_op_reads_or_that_only_a_run_tells_stays_a_tensor():
    read = NORM.replace("return y,", "z = torch.sin(eps)\nreturn y, z")
    unbacked = NORM.replace("item: 1e-05", 'item: 1e-05 @ "zuf0"')
    assert floats_in_tensors(dynamic(read)) == floats_in_tensors(dynamic(unbacked)) == {}
    assert floats_in_tensors(case_of(NORM)) == {}
