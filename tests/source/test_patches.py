"""Edits as patches of the text: made of a difference, merged, and carried along."""

import random

import pytest

from minifier.repro.source.patches import Patch, Replacement, difference, merged, patched


@pytest.mark.parametrize(
    ("before", "after", "spans"),
    [
        ("f(a, b, c)\n", "f(b, c)\n", [Replacement(2, 5, "")]),
        ("f(a, b, c)\n", "f(a, b)\n", [Replacement(6, 9, "")]),
        ("f(x1)\n", "f(x2)\n", [Replacement(2, 4, "x2")]),  # no half of a word
        ("a\nb\nc\n", "a\nc\n", [Replacement(2, 4, "")]),
        ("a\nb\n", "b\n", [Replacement(0, 2, "")]),
        ("f(n)\na\ng(n)\n", "f(1)\na\ng(1)\n", [Replacement(2, 3, "1"), Replacement(9, 10, "1")]),
        ("def f():\n    a\n    b\n\nf()\n", "a\nb\n", None),
        ("a\n", "a\n", []),
    ],
)
def test_a_patch_turns_one_text_into_the_other(before, after, spans):
    patch = difference(before, after)
    assert patched(before, patch) == after
    assert spans is None or list(patch.spans) == spans


def test_random_texts():
    draw = random.Random(0)
    for _ in range(300):
        before, after = ("".join(draw.choice("ab1(,\n") for _ in range(draw.randint(0, 25))) for _ in range(2))
        assert patched(before, difference(before, after)) == after


def test_patches_that_do_not_touch_are_applied_together():
    source = "f(a, b, c)\ng(a)\n"
    one, two = difference(source, "f(b, c)\ng(a)\n"), difference(source, "f(a, b, c)\ng()\n")
    assert not one.touches(two) and patched(source, merged([two, one])) == "f(b, c)\ng()\n"


@pytest.mark.parametrize(
    ("one", "two", "touch"),
    [
        (Replacement(2, 5, ""), Replacement(5, 8, ""), False),
        (Replacement(2, 5, ""), Replacement(4, 8, ""), True),
        (Replacement(2, 5, ""), Replacement(3, 3, "x"), True),
        (Replacement(3, 3, "x"), Replacement(3, 3, "y"), True),
        (Replacement(3, 3, "x"), Replacement(3, 4, ""), False),
    ],
)
def test_what_touches(one, two, touch):
    assert Patch((one,)).touches(Patch((two,))) is touch is Patch((two,)).touches(Patch((one,)))


def test_a_patch_moves_with_the_text():
    source = "f(a, b, c)\ng(a)\n"
    first, second = difference(source, "f(c)\ng(a)\n"), difference(source, "f(a, b, c)\ng()\n")
    moved = second.after(first)
    assert moved is not None and patched(patched(source, first), moved) == "f(c)\ng()\n"
    assert difference(source, "f(a, c, b)\ng(a)\n").after(first) is None


def test_a_patch_still_takes_away_what_was_changed():
    source = "f(a, g(20))\n"
    without, smaller = difference(source, "f(a)\n"), difference(source, "f(a, g(1))\n")
    moved = without.after(smaller)
    assert moved is not None and patched(patched(source, smaller), moved) == "f(a)\n"
    assert smaller.after(without) is None
