"""Pairs of failures that a reduction must not take for one another, and pairs that it must."""

import sys

import pytest

from minifier.case import Graph, Node, Ref
from minifier.failure import Kind, Stage, same
from minifier.failure.fingerprint import of_exception
from minifier.failure.observed import describe


class LoweringError(RuntimeError):
    pass


def seen(work, nodes=()):
    """The fingerprint of what `work` raises."""
    try:
        work()
    except BaseException as error:
        return of_exception(Stage.COMPILE, describe(error), nodes)
    raise AssertionError("nothing was raised")


def say(message):
    raise LoweringError(message)


def wrapped(cause, depth=1):
    try:
        wrapped(cause, depth - 1) if depth > 1 else say(cause)
    except LoweringError as error:
        raise RuntimeError("compilation failed") from error


def group(*messages):
    raise ExceptionGroup("passes failed", [LoweringError(m) for m in messages])  # noqa: F821


LONG = "engine build failed\n" + "\n".join(f"  pass {i}: ok" for i in range(8))

DIFFERENT = {
    "the cause is another": (lambda: wrapped("tanh overflows the table"), lambda: wrapped("sin needs range reduction")),
    "the width is part of the name": (lambda: say("no kernel for int16"), lambda: say("no kernel for int8")),
    "the base is part of the name": (lambda: say("no lowering for log2"), lambda: say("no lowering for log10")),
    "the last line of a long message": (
        lambda: say(f"{LONG}\n  pass 9: FAILED table too small"),
        lambda: say(f"{LONG}\n  pass 9: FAILED range reduction missing"),
    ),
    "the end, where nothing accuses": (lambda: say(f"{LONG}\n no table"), lambda: say(f"{LONG}\n no range")),
    "one word of the text": (lambda: say("bad output layout"), lambda: say("bad input layout")),
    "the exit status": (lambda: exec("raise SystemExit(3)"), lambda: exec("raise SystemExit(4)")),
}


@pytest.mark.parametrize("pair", DIFFERENT)
def test_two_failures_are_told_apart(pair):
    one, other = DIFFERENT[pair]
    assert not same(seen(one), seen(other))
    assert not same(seen(one), seen(other), renamed={})
    assert same(seen(one), seen(one))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_the_members_of_a_group_are_part_of_it():
    assert not same(seen(lambda: group("no table")), seen(lambda: group("no range")))
    assert same(seen(lambda: group("no table")), seen(lambda: group("no table")))


def kernel(name):
    """A function of a generated module."""
    space = {"__name__": f"kernel_{name}"}
    exec(
        compile(f"def launch_{name}():\n    raise ValueError('bad launch')", f"/cache/kernel_{name}.py", "exec"), space
    )
    return space[f"launch_{name}"]


def recursion(depth):
    return recursion(depth + 1)


ALIKE = {
    "a wrapper a level": (lambda: wrapped("no table", 1), lambda: wrapped("no table", 7)),
    "generated modules": (kernel("0fdbcddcd7"), kernel("99ab12cd34ef")),
    "numbered functions": (kernel("12"), kernel("7")),
    "the order of a set": (lambda: say("unsupported: {'erf', 'sin'}"), lambda: say("unsupported: {'sin', 'erf'}")),
    "the depth of a recursion": (lambda: recursion(0), lambda: (lambda: recursion(0))()),
    "a compiler's command line": (
        lambda: say(f"Command '['g++', '/tmp/a/{'b' * 40}.cpp', {'-Wall, ' * 200}]' returned non-zero exit status 1."),
        lambda: say(f"Command '['g++', '/tmp/much/longer/c.cpp', {'-Wall, ' * 180}]' returned non-zero exit status 1."),
    ),
    "a numbered name": (lambda: say("cannot place add_12"), lambda: say("cannot place add_3")),
}


@pytest.mark.parametrize("pair", ALIKE)
def test_one_failure_is_recognised(pair):
    one, other = ALIKE[pair]
    assert same(seen(one), seen(other))


def test_a_node_stands_for_a_node_of_the_other_graph_only():
    here, there = seen(lambda: say("cannot place mask"), ["mask"]), seen(lambda: say("cannot place weight"), ["weight"])
    assert same(here, there)
    assert not same(here, seen(lambda: say("cannot place everything"), ["weight"]))
    # In a fresh interpreter nobody knows the names.
    assert same(here, seen(lambda: say("cannot place w")), renamed={})


def test_names_of_ops_and_of_the_output_are_not_free():
    graph = Graph(
        (
            Node("x", "placeholder", "x"),
            Node("tanh", "call_function", "torch.tanh", (Ref("x"),)),
            Node("output", "output", "output", ((Ref("tanh"),),)),
        )
    )
    assert graph.free_names == ("x",)


def test_an_exit_has_the_kind_that_it_has_from_outside():
    found = seen(lambda: exec("raise SystemExit('fatal: no lowering')"))
    assert (found.kind, found.message, found.types) == (Kind.EXIT, "exit status 1", ())
