"""Symbolic sizes, exactly: what comes in, what is written into the graph, and what is left of them."""

from dataclasses import replace

import pytest
from case_samples import meta
from case_text import case_of, graph_of
from pass_rows import is_shown

from minifier.case import Case, Scalar, Symbol, Symbolic
from minifier.case.symbolic_sizes import (
    as_dynamo_would,
    has_symbols,
    is_symbolic,
    is_unbacked_value,
    is_unseen,
    specialised,
)
from minifier.case.values import Sequence_


def value_of(text):
    return graph_of(f"x: {text}\nreturn x,").node("x").value


@pytest.mark.parametrize(
    ("value", "unbacked", "unseen"),
    [
        ("float32[2]", False, False),
        ('float32[2 @ "s0"]', False, False),
        ('float32[2 @ "s0", 3 @ "u0"]', True, False),
        ('float32[3, 0 @ "u0"]', True, True),
        ('float32[0 @ "s0"]', False, False),
        ("5", False, False),
        ('5 @ "s0"', False, False),
        ('5 @ "u0"', True, False),
        ('None @ "u0"', True, True),
        ("None", False, False),
    ],
)
def test_what_only_running_the_graph_tells(value, unbacked, unseen):
    assert is_unbacked_value(value_of(value)) is unbacked and is_unseen(value_of(value)) is unseen
    assert is_unbacked_value(Sequence_((meta(2), value_of(value)))) is unbacked


@pytest.mark.parametrize(
    ("text", "of_inputs", "of_case"),
    [
        ("x: float32[2]\ny = torch.sin(x)\nreturn y,", False, False),
        ('x: float32[2 @ "s0"]\ny = torch.sin(x)\nreturn y,', True, True),
        ('x: float32[2, 3 @ "s0"]\ny = torch.sin(x)\nreturn y,', True, True),
        ('n: 2 @ "s0"\nx: float32[2]\ny = torch.sin(x)\nreturn y,', True, True),
        ("n: 2\nx: float32[2]\ny = torch.sin(x)\nreturn y,", False, False),
        ('x: float32[2]\ny: float32[2 @ "u0"] = torch.f(x)\nreturn y,', False, True),
        ('x: float32[2]\ny: float32[2 @ "s0"] = torch.f(x)\nreturn y,', False, False),
    ],
)
def test_which_cases_have_symbols(text, of_inputs, of_case):
    case = case_of(text)
    assert has_symbols(case.inputs) is of_inputs and is_symbolic(case) is of_case


def dynamos(text, **changes) -> Case:
    return as_dynamo_would(case_of(text, **changes))


def test_a_symbol_comes_in_ahead_of_the_first_input_that_it_is_a_size_of():
    case = dynamos(
        """
        p: float32[3]
        x: float32[4 @ "s0", 4 @ "s0"]
        s0: 4 @ "s0"
        y: float32[4 @ "s0"]
        z = torch.f(p, x, y, s0)
        return z,
        """,
        symbols=(Symbol("s0", 9, 2, 90), Symbol("s5", 5)),
    )
    assert is_shown(
        case,
        """
        p: float32[3]
        s0: 4 @ "s0"
        x: float32[4 @ "s0", 4 @ "s0"]
        y: float32[4 @ "s0"]
        z = torch.f(p, x, y, s0)
        return z,
        """,
    )
    assert case.symbols == (Symbol("s0", 4, 2, 90),)


def test_a_symbol_that_no_input_gives_gets_a_placeholder_of_a_free_name():
    text = 'x: float32[4 @ "s0"]\ns0 = torch.sin(x)\ns0_1 = torch.cos(s0)\nreturn s0_1,'
    case = dynamos(text)
    assert is_shown(case, 's0_2: 4 @ "s0"\n' + text)
    assert case.graph.node("s0_2").target == "s0_2"
    assert dynamos('x: float32[4 @ "s0"]\ns0 = torch.sin(x)\nreturn s0,').inputs[0].name == "s0_1"


def test_an_expression_becomes_a_new_symbol_wherever_it_occurs():
    case = dynamos("""
        x: float32[8 @ "2*s0", 3]
        y: float32[8 @ "2*s0"]
        z: float32[8 @ "2*s0", 4 @ "s0"] = torch.f(x, y)
        n: 8 @ "2*s0" = torch.size(x)
        t: (8 @ "2*s0", 3) = torch.shape(x)
        return z,
    """)
    assert is_shown(
        case,
        """
        s1: 8 @ "s1"
        x: float32[8 @ "s1", 3]
        y: float32[8 @ "s1"]
        z = torch.f(x, y)
        n = torch.size(x)
        t = torch.shape(x)
        return z,
        """,
    )
    assert case.graph.node("z").value.symbols == ("s1", "s0")
    assert case.graph.node("n").value == Scalar(8, "s1")
    assert case.graph.node("t").value == Sequence_((Scalar(8, "2*s0"), Scalar(3)))
    assert case.symbols == (Symbol("s1", 8),)


def test_two_sizes_never_share_a_symbol_with_dynamic_true():
    text = 'x: float32[4 @ "s0"]\ny: float32[5 @ "s0"]\nz = torch.f(x, y)\nreturn z,'
    assert is_shown(
        dynamos(text, symbolic=Symbolic.GIVEN),
        's0: 4 @ "s0"\nx: float32[4 @ "s0"]\ns1: 5 @ "s1"\ny: float32[5 @ "s1"]\nz = torch.f(x, y)\nreturn z,',
    )


@pytest.mark.parametrize("size", ['1 @ "s0"', '0 @ "s0"', '4 @ "u0"'])
def test_sizes_of_nought_and_one_and_those_that_are_unbacked_are_plain(size):
    case = dynamos(f"x: float32[{size}]\ny = torch.sin(x)\nreturn y,")
    assert case.inputs[0].meta.symbols == () and len(case.inputs) == 1 and case.symbols == ()


def test_with_dynamic_true_equal_sizes_share_a_symbol_and_parameters_have_none():
    text = """
        x: float32[4, 3, 1, 0]
        y: float32[3 @ "s7"]
        w: float32[4, 3]
        z = torch.f(x, y, w)
        return z,
    """
    case = case_of(text, symbolic=Symbolic.GIVEN)
    parameter = replace(case.inputs[2], parameter=True)
    case = as_dynamo_would(replace(case, inputs=(*case.inputs[:2], parameter)))
    assert is_shown(
        case,
        """
        s0: 4 @ "s0"
        s1: 3 @ "s1"
        x: float32[4 @ "s0", 3 @ "s1", 1, 0]
        y: float32[3 @ "s1"]
        w: float32[4, 3]
        z = torch.f(x, y, w)
        return z,
        """,
    )


def numbers(number, origin):
    """A number that is no size of the input."""
    text = f'n: {number}\nx: float32[4 @ "s0"]\nz = torch.f(x, n)\nreturn z,'
    return dynamos(text, symbolic=origin)


SIZED = 's0: 4 @ "s0"\nx: float32[4 @ "s0"]\n'


@pytest.mark.parametrize(
    ("number", "origin", "expected"),
    [
        ('7 @ "s1"', Symbolic.GIVEN, f'n: 7 @ "s1"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('7 @ "s1"', Symbolic.AUTOMATIC, f'n: 7 @ "s1"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('7 @ "s1"', Symbolic.MARKED, f"{SIZED}z = torch.f(x, 7)\nreturn z,"),
        ('7 @ "2*s1"', Symbolic.AUTOMATIC, f'n: 7 @ "s2"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('7 @ "u0"', Symbolic.AUTOMATIC, f"{SIZED}z = torch.f(x, 7)\nreturn z,"),
        ('7 @ "u0"', Symbolic.GIVEN, f'n: 7 @ "s1"\n{SIZED}z = torch.f(x, n)\nreturn z,'),
        ('0.5 @ "zf1"', Symbolic.AUTOMATIC, f"{SIZED}z = torch.f(x, 0.5)\nreturn z,"),
        ("7", Symbolic.AUTOMATIC, f"{SIZED}z = torch.f(x, 7)\nreturn z,"),
        ("None", Symbolic.AUTOMATIC, f"n: None\n{SIZED}z = torch.f(x, n)\nreturn z,"),
        ('None @ "u0"', Symbolic.AUTOMATIC, f"n: None\n{SIZED}z = torch.f(x, n)\nreturn z,"),
        ('4 @ "s0"', Symbolic.AUTOMATIC, 'n: 4 @ "s0"\nx: float32[4 @ "s0"]\nz = torch.f(x, n)\nreturn z,'),
    ],
)
def test_a_number_is_a_symbol_of_its_own_or_a_literal(number, origin, expected):
    assert is_shown(numbers(number, origin), expected)


def test_a_second_number_that_is_the_size_is_the_first():
    case = dynamos('n: 4 @ "s0"\nm: 4 @ "s0"\nx: float32[4 @ "s0"]\nz = torch.f(x, n, m, k=[m])\nreturn z,')
    assert is_shown(case, 'm: 4 @ "s0"\nx: float32[4 @ "s0"]\nz = torch.f(x, m, m, k=[m])\nreturn z,')


def test_two_numbers_of_one_symbol_are_two():
    case = dynamos('n: 7 @ "s1"\nm: 7 @ "s1"\nx: float32[2]\nz = torch.f(x, n, m)\nreturn z,')
    assert [(item.name, getattr(item, "symbol", None)) for item in case.inputs] == [
        ("n", "s1"),
        ("m", "s0"),
        ("x", None),
    ]
    assert case.symbols == (Symbol("s1", 7), Symbol("s0", 7))


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
    case = specialised(case_of(SHAPED, symbolic=Symbolic.AUTOMATIC, symbols=(Symbol("s0", 4),)))
    assert is_shown(
        case,
        """
        x: float32[4, 3]
        k: 5
        u = torch.item(x)
        part = torch.size(x)
        both = torch.f(x)
        mixed = torch.h(x)
        y = torch.g(x, 8, u, k, 0.5, part, both)
        return y,
        """,
    )
    assert case.graph.node("y").value.symbols == (None, "u0") and case.graph.node("y").value.shape == (8, 0)
    assert case.graph.node("x").value.symbols == () == case.inputs[0].meta.symbols
    assert (case.symbolic, case.symbols, case.backend.dynamic) == (None, (), None)


def test_static_cases_are_left_alone():
    case = case_of('x: float32[4]\ny: float32[0 @ "u0"] = torch.f(x)\nreturn y,')
    assert specialised(case) is case
