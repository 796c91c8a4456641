"""Exceptions that only say where another one was raised: they are no part of a failure's identity."""

import inspect

import pytest

from minifier.data.failure import Frame, Stage, same
from minifier.data.failure.fingerprint import of_exception
from minifier.data.failure.observed import describe, quotes


def seen(work):
    try:
        work()
    except BaseException as error:
        return of_exception(Stage.COMPILE, describe(error))
    raise AssertionError("nothing was raised")


def evaluate(message="Exponent must be non-negative.", kind=ValueError):
    raise kind(message)


def lower(wrap, *error):
    """Raise what `wrap` makes of the exception, in the way of Inductor's lowering."""
    try:
        evaluate(*error)
    except Exception as inner:
        raise wrap(inner).with_traceback(inner.__traceback__) from None


def lowering(target):
    from torch._inductor.exc import LoweringException

    operands = [f"TensorBox(StorageBox(\n  {target}\n))"]
    stack = ["File x"] if "stack_trace" in inspect.signature(LoweringException).parameters else []  # not in 2.8
    return lambda inner: LoweringException(inner, target, operands, {}, *stack)


def caught(wrap):
    try:
        evaluate()
    except ValueError as error:
        raise wrap(error) from error


def test_a_lowering_exception_is_the_exception_inside():
    bare, conv, view = seen(evaluate), seen(lambda: lower(lowering("aten.conv"))), seen(lambda: lower(lowering("view")))
    assert conv.types == ("ValueError",) and conv.message == "Exponent must be non-negative."
    assert conv.raising == Frame(__name__, "evaluate")
    assert same(bare, conv) and same(conv, view) and conv == view == bare


def test_exceptions_inside_one_wrapper_stay_apart():
    sought = seen(lambda: lower(lowering("aten.conv")))
    assert not same(sought, seen(lambda: lower(lowering("aten.conv"), "Exponent must be an integer.")))
    assert not same(sought, seen(lambda: lower(lowering("aten.conv"), "Exponent must be non-negative.", TypeError)))


def test_wrappers_in_wrappers_are_unwrapped():
    from torch._inductor.exc import InductorError

    def work():
        try:
            lower(lowering("aten.conv"))
        except Exception as error:
            for _ in range(3):
                error = InductorError(error, None).with_traceback(error.__traceback__)
            raise error from None

    assert seen(work) == seen(evaluate)


def test_an_error_in_dynamos_fake_tensors_is_the_error_inside():
    import torch

    @torch.compile(backend="eager", fullgraph=True)
    def fn(x):
        return torch.matmul(x, x)

    found = seen(lambda: fn(torch.ones(2, 3)))
    assert found.types == ("RuntimeError",) and found.raising == Frame("torch", "_check_with")
    assert found.message == "a and b must have same reduction dim, but got <shape> X <shape>."


@pytest.mark.parametrize(
    "wrap",
    [
        lambda error: RuntimeError(f"pass 7 failed: {error}"),
        lambda error: RuntimeError(f"got {error!r} while lowering"),
        lambda error: KeyError(f"ValueError: {error}"),
    ],
)
def test_any_exception_that_quotes_its_cause_is_a_wrapper(wrap):
    assert seen(lambda: caught(wrap)) == seen(evaluate)


def test_an_exception_that_says_something_of_its_own_is_no_wrapper():
    assert seen(lambda: caught(lambda error: RuntimeError("cannot compile"))).types == ("RuntimeError", "ValueError")


def test_a_hidden_context_that_is_not_quoted_is_no_cause():
    assert seen(lambda: lower(lambda error: KeyError("no table"))).types == ("KeyError",)


@pytest.mark.parametrize(
    ("message", "kind", "inner", "is_quoted"),
    [
        ("ValueError: no table", "ValueError", "no table", True),
        ("ValueError: no table", "KeyError", "no table", False),
        ("got acme.Error('no table') here", "acme.Error", "no table", True),
        ("no table", "ValueError", "no table", False),
        ("so: there is no table", "ValueError", "there is no table", True),
        ("key 'x' of x", "KeyError", "'x'", False),
        ("AssertionError: \n target: aten.prod", "AssertionError", "", True),
        ("got AssertionError()", "AssertionError", "", True),
        ("MyAssertionError:", "AssertionError", "", False),
    ],
)
def test_what_counts_as_a_quotation(message, kind, inner, is_quoted):
    assert quotes(message, kind, inner) is is_quoted
