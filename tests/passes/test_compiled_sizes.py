"""Failures of code that was compiled for other sizes than those of the failing call."""

import pytest
from case_text import case_of
from pass_rows import is_shown, made

from minifier.case import Level, Symbol, Symbolic, TensorInput
from minifier.case.compiled_sizes import as_called, compiled_as_called, inputs_at_compilation
from minifier.case.symbolic_sizes import as_dynamo_would
from minifier.emit.forms import Template, Variant
from minifier.emit.repro import write_repro

TEXT = 'x: float32[8 @ "s0", 3]\ny = torch.tanh(x)\nreturn y,'
S0 = Symbol("s0", 8, 2, None, 5)


def compiled_with(text=TEXT, symbols=(S0,), **changes):
    return case_of(text, symbols=symbols, symbolic=Symbolic.GIVEN, through_dynamo=True, **changes)


def shapes(inputs):
    return [item.meta.shape if isinstance(item, TensorInput) else item.value for item in inputs]


def test_what_a_later_call_tells_of_its_symbols_and_sizes():
    symbols = (Symbol("s0", 5, 2), Symbol("s1", 7), Symbol("u0", None))
    text = """
    n: 9 @ "s1"
    x: float32[8 @ "s0", 3]
    m: {m} @ "2*s0" = operator.mul(n, 2)
    y: float32[{y} @ "s0 + 1", 3, 0 @ "u0"] = torch.f(x, m)
    return y,
    """
    case = as_called(case_of(text.format(m=10, y=6), symbols=symbols))
    assert case.symbols == (Symbol("s0", 8, 2, None, 5), Symbol("s1", 9, None, None, 7), Symbol("u0", None))
    assert is_shown(case, text.format(m=16, y=9)) and as_called(case) == case
    aten = as_called(case_of(text.format(m=10, y=6), symbols=symbols, level=Level.AOT_FORWARD))
    assert aten.graph == case.graph and aten.symbols == (Symbol("s0", 8, 2), Symbol("s1", 9), Symbol("u0", None))


def test_the_first_call_is_made_where_dynamo_judges_whether_the_code_is_valid():
    case = compiled_with('n: 16 @ "2*s0"\nx: float32[8 @ "s0", 3]\ny = torch.f(x, n)\nreturn y,')
    assert shapes(inputs_at_compilation(case)) == [10, (5, 3)]
    assert inputs_at_compilation(compiled_as_called(case)) == ()


def test_a_symbol_keeps_its_size_at_compilation_under_another_name():
    case = as_dynamo_would(compiled_with('x: float32[16 @ "2*s0", 3]\ny = torch.tanh(x)\nreturn y,'))
    (symbol,) = (each for each in case.symbols if each.compiled is not None)
    assert (symbol.hint, symbol.compiled) == (16, 10)
    assert shapes(inputs_at_compilation(case))[-1][0] == symbol.compiled


def test_the_size_at_compilation_becomes_small():
    case = compiled_with()
    rows = made("sizes", case)
    assert [[each.compiled for each in made.symbols] for made in rows["compiled s0"]] == [[2], [3], [4]]
    assert "compiled s0" not in made("sizes", compiled_as_called(case))


@pytest.mark.parametrize(
    ("how", "calls"),
    [
        (Symbolic.GIVEN, ["compiled(torch.randn(5, 3))  # compiles it with this size", "compiled(x)"]),
        (
            Symbolic.AUTOMATIC,
            [
                "compiled(torch.randn(6, 4))  # another size: from now on it is a symbol",
                "compiled(torch.randn(5, 3))  # compiles it with this size",
                "compiled(x)",
            ],
        ),
    ],
)
def test_the_repro_compiles_it_with_that_size_first(how, calls):
    case = as_dynamo_would(compiled_with())
    lines = write_repro(case, Template.COMPILE_FUNCTION, Variant(symbolic=how)).text.splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("compiled(")] == calls
    assert lines.count("with torch.no_grad():") == 1
