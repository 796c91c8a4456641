"""The mutation tool makes the mistakes that it says, swaps them in, and counts rightly."""

import sys
import types
from pathlib import Path
from textwrap import dedent

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import mutation
from mutants import mutants_of
from mutation_forks import can_be_swapped, swap


def diffs(text):
    return [mutant.diff for mutant in mutants_of("m.py", dedent(text))]


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("x = a < b", ["a < b -> (a <= b)", "a < b -> (a >= b)"]),
        ("x = a is b", ["a is b -> (a is not b)"]),
        ("x = a and b", ["a and b -> (a or b)"]),
        ("x = not a", ["not a -> (a)"]),
        ("x = a + b", ["a + b -> (a - b)"]),
        ("x = 3", ["3 -> (2)", "3 -> 4"]),
        ("x = True", ["True -> False"]),
        ("x = 'a'", ["'a' -> 'XXa'"]),
        ("x = any(a)", ["any -> all"]),
        ("x = a[b:c]", ["b -> None", "c -> None"]),
        ("x = b if a else c", ["a -> False", "a -> True"]),
        ("x = [a for a in b if a]", ["a -> False", "a -> True"]),
        ("while a: b()", ["a -> False", "b() -> pass"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("a[b] = c", ["a[b] = c -> pass"]),
        ("a += b", ["a += b -> a -= b", "a += b -> pass"]),
        ("for a in b: continue", ["continue -> pass"]),
        ("def f(a=b): return a", ["return a -> return None"]),
        ("def f(a=1): pass", ["1 -> (0)", "1 -> 2"]),
    ],
)
def test_mistakes_that_are_made(text, mistakes):
    assert diffs(text) == mistakes


@pytest.mark.parametrize(
    "text",
    [
        '"""Says 3."""',
        'def f():\n    """Says 3."""',
        "@g(3)\ndef f(a: g(3)) -> g(3): pass",
        "@g(frozen=True)\nclass C:\n    a: g[3]",
        "Name = int | str",
        "name: TypeAlias = int | str",
        "__all__ = ['a']",
        "raise ValueError('a')",
        "assert a < 3",
        "x = f'{a}b'",
        "x = 'two words'",
        "x = zip(a, b, strict=True)",
        "def f(): return None",
    ],
)
def test_what_is_left_alone(text):
    assert diffs(text) == []


SOURCE = '''\
"""A module."""

LIMIT = 3


class Box:
    @property
    def full(self):
        return self.count >= LIMIT

    def add(self, ä="ü"):
        def inner():
            return 1

        return inner()
'''


def test_a_mutant_knows_its_place_and_is_one_mistake_away():
    found = mutants_of("m.py", SOURCE)
    assert [(mutant.function, mutant.line) for mutant in found] == [
        *[("", 3)] * 2, *[("Box.full", 9)] * 3, ("", 11), *[("Box.add", 13)] * 3, ("Box.add", 15),
    ]  # fmt: skip
    for mutant in found:
        changed = mutant.source(SOURCE)
        (line,) = (
            i for i, (a, b) in enumerate(zip(SOURCE.splitlines(), changed.splitlines(), strict=True), 1) if a != b
        )
        assert line == mutant.line in mutant.lines
        compile(changed, "m.py", "exec")


@pytest.fixture
def box(monkeypatch):
    module = types.ModuleType("m")
    exec(compile(SOURCE, "m.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "m", module)
    return module.Box()


def test_a_functions_code_is_swapped_where_the_module_is_in_use_already(box):
    found = mutants_of("m.py", SOURCE)
    assert [can_be_swapped(mutant) for mutant in found] == [bool(mutant.function) for mutant in found]
    box.count = 3
    assert box.full and box.add() == 1
    turned = next(mutant for mutant in found if mutant.diff == "self.count >= LIMIT -> (self.count < LIMIT)")
    swap(turned, SOURCE)
    swap(next(mutant for mutant in found if mutant.diff == "1 -> 2"), SOURCE)
    assert not box.full and box.add() == 2


def surveyed(**lines):
    return {name: {"seconds": seconds, "lines": {"m.py": [line]}} for name, (seconds, line) in lines.items()}


def test_the_tests_of_a_mutant_run_its_line_and_the_fastest_come_first():
    found = mutants_of("m.py", SOURCE)
    survey = surveyed(slow=(3, 9), fast=(1, 9), other=(1, 13), test_m=(2, 9))
    assert mutation.Score(survey, 10, 1).tests_for(found[2]) == ["test_m", "fast", "slow"]
    assert mutation.Score(survey, 3, 1).tests_for(found[2]) == ["test_m", "fast"]
    assert mutation.Score(survey, 0, 1).tests_for(found[2]) == ["test_m"], "one at least"
    assert set(mutation.Score(survey, 10, 1).tests_for(found[0])) == set(survey), "whatever the module is used for"
