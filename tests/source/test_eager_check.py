"""A script with an added check fails where it sees another value than in eager mode, and only there."""

import ast
import contextlib
import io
import re

import pytest
import torch

from minifier.capturing.watched_script import Moment, Place
from minifier.repro.source.conditions import Kept
from minifier.repro.source.eager_check import Sight, with_check, with_returned_value
from minifier.repro.source.run_source import in_eager
from minifier.torch_side.fx.script_objects import define

COMPILED = ("fast", "shifted", "count")


def placed(source, text, moment, expression, tolerance=None, function=("", 0), **facts):
    """A sight at the first line with this text, in the call of compiled code there."""
    line = next(number for number, each in enumerate(source.splitlines(), 1) if text in each)
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.lineno == line]
    spans = [(c.lineno, c.col_offset, c.end_lineno, c.end_col_offset) for c in calls if ast.unparse(c.func) in COMPILED]
    place = Place(line, spans[0] if spans else None, function)
    return Sight(moment, place, expression, "1", "2", tolerance, tolerance is not None, **facts)


def forms(source, *where, **facts):
    return list(with_check(source, placed(source, *where, **facts)))


def ended(text):
    """How a script ends: the exception's type, or "passes"."""
    torch._dynamo.reset()
    with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng():
        try:
            define(text, "<script>")
        except Exception as error:
            return type(error).__name__
        finally:
            torch.compiler.set_stance("default")
    return "passes"


# `is_compiling` stands for a fault: it is true under torch.compile only.
HEAD = """\
import torch

def double(x):
    return x * 3 if torch.compiler.is_compiling() else x * 2

SIZE = 2
fast = torch.compile(double, backend="eager")
"""
ASSIGNED = HEAD + "x = torch.rand(SIZE)\ny = fast(x)\nprint(y)\n"
NESTED = HEAD + "total: float = 0.0\nfor n in range(2):\n    total += fast(torch.rand(SIZE)).sum()\n"
RETURNED = HEAD + "def step(x):\n    return fast(x) + 1\n\nstep(torch.rand(SIZE))\n"
IN_TEST = HEAD + "x = torch.rand(SIZE)\nif fast(x).sum() > 9:\n    print(x)\n"
IN_FUNCTION = HEAD + "def main():\n    y = fast(torch.rand(SIZE))\n    y += 1\n    return y\n\nmain()\n"
DECORATED = """\
import torch

OFFSET = torch.ones(2)

@torch.compile(backend="eager")
def shifted(x, by=OFFSET):
    return x + by * (2 if torch.compiler.is_compiling() else 1)

y = shifted(torch.zeros(2))
"""
ATTRIBUTE = """\
import torch

class Counter:
    n = 0

counter = Counter()

@torch.compile(backend="eager")
def count(x):
    counter.n += 2 if torch.compiler.is_compiling() else 1
    return x

count(torch.ones(1))
"""
AFTER, RESULT = Moment.AFTER, "result"


@pytest.mark.parametrize(
    ("source", "where"),
    [
        (ASSIGNED, ("y = fast", AFTER, RESULT, 0.01)),
        (ASSIGNED, ("print(y)", Moment.BEFORE, "y", 0.01)),
        (NESTED, ("total +=", AFTER, RESULT, 0.01)),
        (RETURNED, ("return fast", AFTER, RESULT, 0.01)),
        (IN_TEST, ("if fast", AFTER, RESULT, 0.01)),
        (DECORATED, ("y = shifted", AFTER, RESULT, 0.01)),
        (ATTRIBUTE, ("count(torch", AFTER, "counter.n")),
        (ATTRIBUTE, ("import torch", Moment.ENDED, "counter.n")),
    ],
)
def test_the_checked_script_fails_compiled_and_passes_in_eager_mode(source, where):
    checked = forms(source, *where)
    assert checked
    for form in checked:
        assert ended(form.text) == "AssertionError"
        assert ended(in_eager(form.text)) == "passes"
        assert Kept(form.check).may_hold(form.text)


def test_a_value_at_the_end_of_a_function_is_taken_ahead_of_its_return():
    function = ("main", HEAD.count("\n") + 1)
    for form in forms(IN_FUNCTION, "y = fast", Moment.RETURNED, "y", 0.01, function=function):
        assert re.search(r"y \+= 1\n +seen.append\(y.detach\(\).clone\(\)\)\n +return y", form.text)
        assert ended(form.text) == "AssertionError"


def test_what_a_loop_has_made_ahead_of_a_further_call_is_looked_at_when_it_ends():
    source = HEAD + "for n in range(2):\n    y = fast(torch.rand(SIZE))\n    total = y.sum()\n"
    at_end, _, ahead, _ = forms(source, "y = fast", Moment.BEFORE, "total", 0.01, is_later=True)
    assert "total = y.sum()\n        seen.append(total.detach().clone())\n" in at_end.text
    assert "seen.append(total.detach().clone())\n        y = fast" in ahead.text
    assert (ended(at_end.text), ended(in_eager(at_end.text))) == ("AssertionError", "passes")


def test_a_loop_or_a_function_of_one_line_gets_no_statement():
    source = HEAD + "y = torch.ones(2)\nfor n in range(2): y = fast(y)\n"
    ahead, _ = forms(source, "y = fast", Moment.BEFORE, "y", 0.01, is_later=True)
    assert "seen.append(y.detach().clone())\n    for n in" in ahead.text
    source = HEAD + "def step(y): return fast(y)\nstep(torch.ones(2))\n"
    assert forms(source, "def step", Moment.RETURNED, "y", 0.01, function=("step", HEAD.count("\n") + 1)) == []


def test_larger_values_may_differ_by_rounding():
    (form, _) = forms(ASSIGNED, "y = fast", AFTER, RESULT, 0.01, relative=1e-3)
    assert "assert_close(actual, seen, rtol=1e-03, atol=1e-02, equal_nan=True)" in form.text


def test_definitions_run_once_unless_they_need_a_value_of_the_script():
    once, twice = forms(ASSIGNED, "y = fast", AFTER, RESULT, 0.01)
    (needs_a_value,) = forms(DECORATED, "y = shifted", AFTER, RESULT, 0.01)
    assert re.search("^def double", once.text, re.MULTILINE)
    assert re.search("^    def double", twice.text, re.MULTILINE)
    assert re.search("^    def shifted", needs_a_value.text, re.MULTILINE)


def test_an_exception_that_only_eager_mode_raises_is_checked():
    source = HEAD + 'if fast(torch.ones(1)) < 3:\n    raise ValueError("too small")\n'
    (form, _) = forms(source, "raise", Moment.ENDED, "", error="ValueError")
    assert ended(form.text) == "AssertionError"
    assert ended(in_eager(form.text)) == "passes"


def test_a_variable_of_the_script_named_result_is_no_result_of_the_call():
    source = ASSIGNED.replace("y", "result")
    for form in forms(source, "print(result)", Moment.BEFORE, "result", 0.01):
        assert "seen.append(result.detach().clone())" in form.text
        assert ended(form.text) == "AssertionError"
    assert forms(source, "print(result)", Moment.BEFORE, "result", 0.01)


def test_no_check_stands_ahead_of_an_elif():
    source = HEAD + "x = torch.rand(SIZE)\nif SIZE > 9:\n    x\nelif fast(x).sum() > 9:\n    x\n"
    assert forms(source, "elif", AFTER, RESULT, 0.01) == []


def test_names_of_the_script_stay():
    source = ASSIGNED.replace("y", "seen").replace("SIZE", "run")
    for form in forms(source, "seen = fast", AFTER, RESULT, 0.01):
        assert ended(form.text) == "AssertionError"


def test_columns_count_bytes():
    source = HEAD + "x = torch.rand(SIZE)\nprint('é', fast(x))\n"
    for form in forms(source, "print", AFTER, RESULT, 0.01):
        assert ended(form.text) == "AssertionError"
    assert forms(source, "print", AFTER, RESULT, 0.01)


def test_a_place_that_is_not_in_the_source_has_no_check():
    assert list(with_check(ASSIGNED, Sight(AFTER, Place(99), "y", "1", "2"))) == []
    assert forms(HEAD + "z = [fast(x) for x in ()]\n", "z =", AFTER, RESULT, 0.01) == []


@pytest.mark.parametrize(
    "where", [("import torch", Moment.ENDED, "y", 0.01), ("import torch", Moment.ENDED, "y.tolist()")]
)
def test_a_value_that_is_noted_last_is_returned_in_the_end(where):
    for form in forms(ASSIGNED, *where):
        text = with_returned_value(form.text)
        assert "actual = run()\nwith torch.compiler" in text and "    expected = run()\n" in text and "seen" not in text
        assert (ended(text), ended(in_eager(text))) == ("AssertionError", "passes")


@pytest.mark.parametrize(
    ("source", "where"),
    [
        (NESTED, ("total +=", AFTER, RESULT, 0.01)),
        (ASSIGNED, ("print(y)", Moment.BEFORE, "y", 0.01)),
        (ASSIGNED, ("import torch", Moment.ENDED, "", None)),
    ],
    ids=["in a loop", "not last", "an exception"],
)
def test_a_value_that_is_noted_elsewhere_stays_noted(source, where):
    facts = {} if where[2] else {"error": "ValueError"}
    for form in forms(source, *where, **facts):
        assert with_returned_value(form.text) is None
