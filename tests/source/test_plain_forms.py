"""Edits that give a script the form in which a person writes it."""

import textwrap

import pytest

from tests.source.edited import FORMS, edited


def made(text):
    return edited(text, *FORMS)


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("a, b = x, y\n", "a = x\n"),
        ("a, b = x, y\n", "b = y\n"),
        ("a, b, c = x, y, z\n", "a, c = x, z\n"),
        ("self.a, self.b = x, y\n", "self.b = y\n"),
        ("a = f(x)\n", "f(x)\n"),
        ("a = x,\nf(*a, b)\ng(1, *a)\n", "a = x\nf(a, b)\ng(1, a)\n"),
        ("a = [x]\nf(*a)\n", "a = x\nf(a)\n"),
        ("a = x, y\nf(*a)\n", "f(*(x, y))\n"),
        ("a = x, y\nf(a)\n", "f((x, y))\n"),
        ("def f(x):\n    a = x, y\n    return a\n", "def f(x):\n    return x, y\n"),
        ("a, b = f(x), g(y)\nh(a)\nh(b, b)\n", "b = g(y)\nh(f(x))\nh(b, b)\n"),
        ("a, b = 2, 3\nf(a, b)\ng(a)\n", "b = 3\nf(2, b)\ng(2)\n"),
        ("a = x\nb = a + a\n", "b = x + x\n"),
        ("a = 1\nb = f(a, a=a)\n", "b = f(1, a=1)\n"),
        ("a = x.y\nb = a.a\n", "b = x.y.a\n"),
        ("a = x\na = f(a)\nb = a\n", "a = f(x)\nb = a\n"),
        ("def f(x):\n    a = g(x)\n    return a\n", "def f(x):\n    return g(x)\n"),
        ("def f(x):\n    a = x + 1\n    return a\n", "def f(x):\n    return x + 1\n"),
        ("def f(x):\n    a = x + 1\n    return x\n", "def f(x):\n    return x + 1\n"),
        ("def f(x):\n    a = x + 1\n    return\n", "def f(x):\n    return x + 1\n"),
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
        "a = [1]\nf(*a, a)\n",  # used as a list, too
        "a = x + 1\nb = a + a\n",  # what is computed once stays so
        "def f(x):\n    a = g(x)\n    return a + a\n",
        "def f(x):\n    a = x + 1\n    g(x)\n    return x\n",
    ],
)
def test_what_has_no_plainer_form(text):
    assert edited(text, *(each for each in FORMS if each != "targets")) == []


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("a = f(x)\n", ["f(x)\n"]),
        ("last = x[:, k]\n", ["x[:, k]\n"]),
        ("a += x.y\n", ["x.y\n"]),
        ("a: int = x + 1\n", ["x + 1\n", "a = x + 1\n"]),
        ("a = b = f(x)\n", ["b = f(x)\n", "a = f(x)\n"]),
        ("if (a := f(x)):\n    b\n", ["if f(x):\n    b\n"]),
        ("a = x\nb = 1\nc: int\n", []),  # without the target nothing would be computed
    ],
)
def test_a_target_goes(text, results):
    assert edited(text, "targets") == results


@pytest.mark.parametrize("text", ["a, *b = x, y\nf(b)\n", "a, b = b, a\nf(a)\n", "a, b = x\nf(a)\n"])
def test_a_tuples_value_that_is_no_variables_own(text):
    assert edited(text, "aliases") == []


def test_a_value_is_put_into_a_line_of_up_to_120_characters():
    used = "f(" + "x" * 55 + ", {0})\n"
    for length in (60, 61):
        value = "g(" + "y" * (length - 3) + ")"
        results = [used.format(value)] if length == 60 else []
        assert edited(f"a = {value}\n" + used.format("a"), "aliases") == results


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
        "class A(M):\n    def __init__(self, n):\n        self.a = n\n\n    def forward(self, x):\n        return x\n",
        "class A(M):\n    b = [1]\n\n    def forward(self, x):\n        return x\n",
        "class A(M):\n    def __len__(self):\n        return 3\n",
    ],
)
def test_a_class_with_parameters_or_more_than_methods_stays(text):
    assert made(text) == []


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (  # the state
            """
            class A(nn.Module):
                def __init__(self, n=2):
                    super().__init__()
                    self.a, self.b = nn.Linear(n, n), 3

                def forward(self, x):
                    return self.a(x) + self.b + self.training

            run(A())
            """,
            """
            n = 2
            a, b = nn.Linear(n, n), 3


            def forward(x):
                return a(x) + b + self.training

            run(forward)
            """,
        ),
        (  # a second module
            """
            def forward(x):
                return x

            class Net(nn.Module):
                def forward(self, x):
                    return forward(x)

            class Other(nn.Module):
                def __init__(self, n):
                    self.forward = n

            run(Net())
            """,
            """
            def forward(x):
                return x


            def forward_of_net(x):
                return forward(x)

            class Other(nn.Module):
                def __init__(self, n):
                    self.forward = n

            run(forward_of_net)
            """,
        ),
        (  # no module
            """
            class Scale:
                def apply(self, x):
                    return x * 2

            scale = Scale()
            run(scale.apply, Scale().apply(3))
            """,
            """

            def apply(x):
                return x * 2
            run(apply, apply(3))
            """,
        ),
    ],
)
def test_a_class_becomes_functions(text, result):
    assert made(text)[0].strip() == textwrap.dedent(result).strip()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("xs = [x]\nf(*xs)\n", "xs = x\nf(xs)\n"),
        ("xs = x,\nf(xs[0])\n", "xs = x\nf(xs)\n"),
        ("xs = [f()]\nfor y in xs:\n    g(y)\n    h(y)\n", "xs = f()\ny = xs\ng(y)\nh(y)\n"),
        ("xs = (f(),)\ndef k(a):\n    for y in xs:\n        y(a)\n", "xs = f()\ndef k(a):\n    y = xs\n    y(a)\n"),
    ],
)
def test_a_display_of_one_element(text, result):
    assert edited(text, "displays") == [result]


@pytest.mark.parametrize(
    "text",
    [
        "xs = [x]\nf(xs)\n",
        "xs = [x]\nf(*xs, xs)\n",
        "xs = [x, y]\nf(*xs)\n",
        "xs = [x]\nfor y in xs:\n    a\nelse:\n    b\n",
    ],
)
def test_a_display_that_is_read_as_one_stays(text):
    assert edited(text, "displays") == []
