"""What Dynamo adds to a graph for symbolic numbers, and a function of the user's does not have."""

from case_text import case_of
from pass_rows import is_shown

from minifier.data.case import Scalar, ScalarInput, Symbol, Symbolic
from minifier.data.case.calls import as_function
from minifier.data.case.expressions import floats_in_tensors
from minifier.data.case.symbolic_sizes import specialised

NORM = """
x: float32[4 @ "s0", 3]
eps: float64[()]
item: 1e-05 = eps.item()
y: float32[4 @ "s0", 3] = torch.f(x, item)
return y,
"""


def dynamic(text):
    return case_of(text, symbols=(Symbol("s0", 4, 2),), symbolic=Symbolic.GIVEN)


def test_a_float_that_is_passed_in_a_tensor_is_a_number():
    case = as_function(dynamic(NORM))
    assert is_shown(case, 'x: float32[4 @ "s0", 3]\neps: 1e-05\ny: float32[4 @ "s0", 3] = torch.f(x, eps)\nreturn y,')
    assert case.inputs[1] == ScalarInput("eps", 1e-05) and floats_in_tensors(dynamic(NORM)) == {"eps": Scalar(1e-05)}


def test_without_symbols_it_is_written_into_the_graph():
    assert is_shown(
        specialised(dynamic(NORM)),
        "x: float32[4, 3]\ny: float32[4, 3] = torch.f(x, 1e-05)\nreturn y,",
    )


def test_a_tensor_that_another_op_reads_or_that_only_a_run_tells_stays_a_tensor():
    read = NORM.replace("return y,", "z = torch.sin(eps)\nreturn y, z")
    unbacked = NORM.replace("item: 1e-05", 'item: 1e-05 @ "zuf0"')
    assert floats_in_tensors(dynamic(read)) == floats_in_tensors(dynamic(unbacked)) == {}
    assert floats_in_tensors(case_of(NORM)) == {}
