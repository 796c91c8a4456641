"""Statements taken out of a script, at any depth."""

import ast

import pytest
from vocabulary import source_of

from minifier.repro.source.statement_tree import Tree

SCRIPT = source_of("""
    import math


    class Meter:
        def __init__(self):
            self.count = 0

        def update(self, x):
            self.count += 1
            return x


    def f(x):
        if x:
            a = 1; b = 2
        elif x is None:
            a = 3
        else:
            b = 4
        try:
            math.sqrt(x)
        except ValueError:
            pass
        finally:
            x = 0
        for i in range(3): x += i
        return x


    print(f(Meter().update(2)))
""")


TABLES = """
NAMES = ["a", "b"]
TABLE = {
    "a": f,
    "b": g,
    **MORE,
}


class Table(Base):
    inner = {"x": [1, 2]}

    def look_up(self, name):
        return {"y": 1}[name]
"""


@pytest.mark.parametrize(("text", "entries"), [(SCRIPT, False), (TABLES, True)], ids=["statements", "entries"])
def test_whatever_is_taken_out_what_is_left_is_python(text, entries):
    tree = Tree(text, whole_functions=entries, entries=entries)
    everything = set(range(len(tree.statements)))
    assert tree.code(everything) == text and tree.code(()).strip() == ""
    assert all(parent < number for number, parents in enumerate(tree.parents) for parent in parents)
    for number in everything:
        ast.parse(tree.code(everything - {number}))
        ast.parse(tree.code({number}))


def test_a_statement_is_there_only_with_what_it_stands_in():
    tree = Tree("def f():\n    a = 1\n    b = 2\n")
    assert tree.code({1}).strip() == ""
    assert tree.code({0, 2}) == "def f():\n    b = 2\n"
    assert tree.code({0}) == "def f():\n    pass\n"


@pytest.mark.parametrize(
    ("text", "taken", "left"),
    [
        ("if a:\n    b\nelse:\n    c\n", {2}, "if a:\n    b\n"),
        ("if a:\n    b\nelif c:\n    d\n", {2}, "if a:\n    b\n"),
        ("a = 1; b = 2; c = 3\n", {1}, "a = 1; c = 3\n"),
        ("a = 1; b = 2\n", {1}, "a = 1\n"),
        ("for x in y: a; b\n", {2}, "for x in y: a\n"),
        ("for x in y: a\n", {1}, "for x in y: pass\n"),
        ("try:\n    a\nexcept E:\n    b\nfinally:\n    c\n", {3}, "try:\n    a\nexcept E:\n    b\n"),
        ("try:\n    a = 1\nfinally:\n    b = 2\n", {2}, "try:\n    a = 1\nfinally:\n    pass\n"),
    ],
)
def test_what_is_left_of_a_compound_statement(text, taken, left):
    tree = Tree(text)
    assert tree.code(set(range(len(tree.statements))) - taken) == left


def test_the_innermost_statement_of_a_line():
    tree = Tree("def f():\n    a = [\n        1,\n    ]\n\n\nf()\n")
    assert [tree.at_line(line) for line in (1, 2, 3, 5, 7, 99)] == [0, 1, 1, None, 2, None]


@pytest.mark.parametrize(
    ("text", "taken", "left"),
    [
        ("a = [1, 2, 3]\n", {3}, "a = [1, 2]\n"),
        ("a = [1, 2, 3]\n", {1, 2, 3}, "a = []\n"),
        ("a = {\n    1: b,\n    2: c,\n}\n", {2}, "a = {\n    1: b,\n}\n"),
        ("a = {\n    1: b,\n    2: c\n}\n", {1}, "a = {\n    2: c\n}\n"),
        ("a = {\n    1: b,  # one\n    2: c,  # two\n}\n", {2}, "a = {\n    1: b,  # one\n}\n"),
        ("a = [\n    b,\n    c  # two\n]\n", {2}, "a = [\n    b\n]\n"),
        ("a = {1: b, **c}\n", {1}, "a = {**c}\n"),
        ("a = {1: [2]}\n", {1, 2}, "a = {}\n"),
    ],
)
def test_what_is_left_of_a_table(text, taken, left):
    tree = Tree(text, entries=True)
    assert tree.code(set(range(len(tree.statements))) - taken) == left
