"""Edits that give a script the form in which a person writes it."""

import textwrap

import libcst as cst
import pytest

from minifier.source.plain_forms import plain_forms


def made(text):
    return [module.code for module in plain_forms(cst.parse_module(textwrap.dedent(text)))]


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("a, b = x, y\n", "a = x\n"),
        ("a, b = x, y\n", "b = y\n"),
        ("a, b, c = x, y, z\n", "a, c = x, z\n"),
        ("self.a, self.b = x, y\n", "self.b = y\n"),
        ("a = f(x)\n", "f(x)\n"),
        ("a = x\nb = a + a\n", "b = x + x\n"),
        ("a = 1\nb = f(a, a=a)\n", "b = f(1, a=1)\n"),
        ("a = x.y\nb = a.a\n", "b = x.y.a\n"),
        ("a = x\na = f(a)\nb = a\n", "a = f(x)\nb = a\n"),
        ("def f(x):\n    a = g(x)\n    return a\n", "def f(x):\n    return g(x)\n"),
        ("def f(x):\n    a = x + 1\n    return a\n", "def f(x):\n    return x + 1\n"),
        ("def f(x):\n    a = x + 1\n    return a @ x\n", "def f(x):\n    return (x + 1) @ x\n"),
    ],
)
def test_fewer_names(text, among):
    assert among in made(text)


@pytest.mark.parametrize(
    "text",
    [
        "a, b = x\n",
        "a, *b = x, y, z\n",
        "a = b, c = x, y\n",
        "a = x + 1\nb = a + a\n",  # what is computed once stays so
        "def f(x):\n    a = g(x)\n    return a + a\n",
    ],
)
def test_what_has_no_plainer_form(text):
    assert [each for each in made(text) if "(x)" not in each] == []


def test_a_module_without_state_is_a_function():
    (changed,) = made(
        """
        class Energy(nn.Module):
            def energy(self, point):
                return point.square()

            def forward(self, points):
                return self.energy(points) + self.other

        run(Energy().eval(), Energy())
        """
    )
    assert (
        changed.strip()
        == textwrap.dedent(
            """

        def energy(point):
            return point.square()


        def forward(points):
            return energy(points) + self.other

        run(forward, forward)
        """
        ).strip()
    )


@pytest.mark.parametrize(
    "text",
    [
        "class A(M):\n    def __init__(self):\n        self.a = 1\n\n    def forward(self, x):\n        return x\n",
        "class A(M):\n    b = [1]\n\n    def forward(self, x):\n        return x\n",
        "class A(M):\n    def call(self, x):\n        return x\n",
    ],
)
def test_a_class_with_state_or_without_forward_stays(text):
    assert made(text) == []
