"""Failures of code that was compiled for other sizes, or with other values, than those of the failing call."""

from dataclasses import replace

import pytest
from case_text import case_of
from pass_rows import is_shown, made

from minifier.data.case import Call, Drawn, Ones, Symbolic, TensorInput
from minifier.data.case.calls import as_called, as_function, inputs_of, without_other_inputs
from minifier.data.case.symbolic_sizes import as_dynamo_would, goes_through_dynamo, specialised
from minifier.repro.emit.forms import Template, Variant
from minifier.repro.emit.repro import write_repro

TEXT = 'x: float32[8 @ "s0", 3]\ny = torch.tanh(x)\nreturn y,'
WITH_5 = Call(sizes=(("s0", 5),))


def compiled_with(text=TEXT, **changes):
    return case_of(text, symbolic=Symbolic.GIVEN, before=(WITH_5,), **changes)


def shapes(inputs):
    return [item.meta.shape if isinstance(item, TensorInput) else item.value for item in inputs]


def test_what_a_later_call_tells_of_its_symbols_and_sizes():
    text = """
    n: {n} @ "s1"
    x: float32[{x} @ "s0", 3]
    m: {m} @ "2*s0" = operator.mul(n, 2)
    y: float32[{y} @ "s0 + 1", 3, 0 @ "u0"] = torch.f(x, m)
    return y,
    """
    later = text.format(n=9, x=8, m=16, y=9)
    case = as_called(replace(case_of(text.format(n=7, x=5, m=10, y=6)), inputs=case_of(later).inputs))
    assert dict(case.before[0].sizes) == {"s0": 5, "s1": 7} and len(case.before) == 1
    assert is_shown(case, later) and as_called(case) == case


SLOPE = """
slope: float64[()]
x: float32[8]
item: {value} @ "zf0" = slope.item()
y: float32[8] = torch.f(x, item)
return y,
"""


def test_a_float_of_a_later_call_and_that_of_the_compilation():
    case = case_of(SLOPE.format(value=0.5), symbolic=Symbolic.AUTOMATIC)
    inputs = tuple(
        replace(item, source=Drawn("full", low=0.0)) if item.name == "slope" else item for item in case.inputs
    )
    case = as_called(replace(case, inputs=inputs))
    assert is_shown(case, SLOPE.format(value=0.0)) and case.before == (Call(sizes=(("zf0", 0.5),)),)
    assert as_dynamo_would(case).before == case.before
    function = as_function(case)
    assert [shapes(inputs_of(function, call))[0] for call in (*case.before, Call())] == [0.5, 0.0]
    lines = write_repro(case, Template.COMPILE_FUNCTION, Variant(symbolic=Symbolic.AUTOMATIC)).text.splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("compiled(")] == [
        "compiled(0.25, y)  # another number: from now on it is a symbol",
        "compiled(0.5, y)  # compiles it with this number",
        "compiled(x, y)",
    ]
    static = specialised(case)
    assert is_shown(static, "x: float32[8]\ny: float32[8] = torch.f(x, 0.0)\nreturn y,") and not static.before


def test_the_first_call_is_made_where_dynamo_judges_whether_the_code_is_valid():
    case = compiled_with('n: 16 @ "2*s0"\nx: float32[8 @ "s0", 3]\ny = torch.f(x, n)\nreturn y,')
    assert shapes(inputs_of(case, WITH_5)) == [10, (5, 3)]
    assert without_other_inputs(case).before == ()


@pytest.mark.parametrize(("size", "before"), [(16, 10), (7, 10)])
def test_a_size_at_compilation_follows_from_that_of_its_symbols(size, before):
    case = as_dynamo_would(compiled_with(f'x: float32[{size} @ "2*s0", 3 @ "s1"]\ny = torch.tanh(x)\nreturn y,'))
    assert [shapes(inputs_of(case, call)) for call in case.before] == [[(before, 3)]]


@pytest.mark.parametrize("expression", ["s0*s9", "Odd(s0)", "s1"])
def test_a_size_that_cannot_be_computed_stays(expression):
    case = compiled_with(f'x: float32[16 @ "{expression}", 3]\ny = torch.tanh(x)\nreturn y,')
    assert shapes(inputs_of(case, WITH_5)) == [(16, 3)]


def test_a_call_with_the_sizes_of_the_failing_call_is_left_out():
    assert as_dynamo_would(compiled_with(TEXT.replace("8", "5"))).before == ()
    assert as_dynamo_would(compiled_with('x: float32[8 @ "s1"]\ny = torch.tanh(x)\nreturn y,')).before == ()


def test_the_size_at_compilation_becomes_small():
    case = compiled_with()
    rows = made("sizes", case)
    assert [dict(made.before[0].sizes) for made in rows["compiled s0"]] == [{"s0": size} for size in (2, 3, 4)]
    assert "compiled s0" not in made("sizes", without_other_inputs(case))


@pytest.mark.parametrize(
    ("ones", "second"), [(Ones.INPUTS, "y"), (Ones.ALL, "torch.nn.Parameter(torch.ones(3), requires_grad=False)")]
)
def test_the_repro_compiles_it_with_other_values_first(ones, second):
    case = case_of("x: float32[8, 3]\ny: float32[3]\nz: int64[2]\nout = torch.f(x, y, z)\nreturn out,")
    inputs = tuple(replace(item, parameter=item.name == "y") for item in case.inputs)
    case = replace(case, inputs=inputs, before=(Call(ones=ones),))
    assert goes_through_dynamo(case) and without_other_inputs(case).before == ()
    lines = write_repro(case, Template.COMPILE_FUNCTION, Variant()).text.splitlines()
    made = [line.strip() for line in lines if line.strip().startswith("compiled(")]
    arguments = f"torch.ones(8, 3), {second}, torch.zeros(2, dtype=torch.int64)"
    assert made == [f"compiled({arguments})  # compiles it with these values", "compiled(x, y, z)"]
