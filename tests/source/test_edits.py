"""Edits of a script's statements."""

import pytest

from tests.source.edited import edited


def made(text):
    return set(edited(text))


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("for i in range(3):\n    a\n    b\n", "a\nb\n"),
        ("for i in range(3):\n    a\n    b\n", "i = 0\na\nb\n"),
        ("for i, j in ((1, 2), (3, 4)):\n    a\n", "i, j = (1, 2)\na\n"),
        ("for i in [b, *c, d]:\n    a\n", "i = d\na\n"),
        ("with x:\n    a\n", "a\n"),
        ("if x:\n    a\nelse:\n    b\n", "a\n"),
        ("if x:\n    a\nelse:\n    b\n", "if x:\n    a\n"),
        ("x = f(a, b)\n", "x = a\n"),
        ("x = f(a, b)\n", "x = f(a)\n"),
        ("x = f(a, b)\n", "x = f(b)\n"),
        ("x = a.b().c(d)\n", "x = a.b()\n"),
        ("x = a + b * c\n", "x = a\n"),
        ("x = a + b * c\n", "x = a + c\n"),
        ("x = -a\n", "x = a\n"),
        ("def f(a):\n    return (a * b)\n", "def f(a):\n    return a * b\n"),
        ("x = a[1:2]\n", "x = a\n"),
        ("x = a[:, k]\n", "x = a[k]\n"),
        ("x = a[:, k]\n", "x = k\n"),
        ("x = [f(1)][0]\n", "x = f(1)\n"),
        ("def f(x, /):\n    return x\n", "def f(x):\n    return x\n"),
        ("x = a if b else c\n", "x = c\n"),
        ("x = [a, b]\n", "x = [b]\n"),
        ("x = f'{a} and {b}'\n", "x = b\n"),
        ("x = a < b\n", "x = b\n"),
        ("@a\n@b(1)\ndef f(x: int = 3) -> int:\n    return x\n", "@a\ndef f(x: int = 3) -> int:\n    return x\n"),
        ("def f(x: int = 3):\n    return x\n", "def f(x: int):\n    return x\n"),
        ("def f(x: int = 3):\n    return x\n", "def f(x = 3):\n    return x\n"),
        ("def f(x):\n    return x\n", "def f(x):\n    return\n"),
        ("class A(B, metaclass=C):\n    a\n", "class A(B):\n    a\n"),
        ("from a import b, c\n", "from a import c\n"),
        ("with a as b, c:\n    d\n", "with c:\n    d\n"),
        ("with a as b:\n    d\n", "with a:\n    d\n"),
    ],
)
def test_among_the_edits(text, among):
    assert among in made(text)


def test_a_name_has_no_edit():
    assert made("x\n") == set()


def test_every_edit_takes_something_away():
    text = "@a(1)\nclass B(C):\n    def f(self, x=1):\n        for y in x:\n            return self.gone(y + 1)[0]\n"
    assert all(len(code) <= len(text) and code != text for code in made(text))


def test_a_parameter_goes_with_the_arguments_given_for_it():
    text = "class A:\n    def __init__(self, n, m):\n        b\n\n    def g(self, x):\n        c\n\n\nA(1, 2).g(x=3)\n"
    found = made(text)
    assert text.replace(", n, m", ", m").replace("A(1, 2)", "A(2)") in found
    assert text.replace(", m)", ")").replace("A(1, 2)", "A(1)") in found
    assert text.replace("g(self, x)", "g(self)").replace("g(x=3)", "g()") in found


def test_an_expression_becomes_a_number():
    assert {"x = 1\n", "f(1)\n"} <= made("x = y\n") | made("f(y)\n")


def test_an_elif_goes_as_a_branch():
    text = "if a:\n    b\nelif c:\n    d\nelse:\n    e\n"
    found = made(text)
    assert {"if a:\n    b\n", "if a:\n    b\nelse:\n    e\n", "if a:\n    b\nelse:\n    d\n"} <= found
    assert "b\n" in found and "d\n" not in found


def test_the_backend_stays_named_and_flags_stay_flags():
    found = made('torch.compile(f, backend="eager", fullgraph=True)\n')
    assert 'torch.compile(f, backend="eager")\n' in found
    assert not any("backend" not in code and "compile" in code for code in found)
    assert not any("fullgraph=1" in code for code in found)


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("def f(x, y=1):\n    a\ngrad(f)(b, c)\n", "def f(x):\n    a\ngrad(f)(b)\n"),
        ("def f(x, y=1):\n    a\nf(*(b, c))\n", "def f(x):\n    a\nf(*(b,))\n"),
        ("def f(x, y):\n    a\nf(*[b, c])\n", "def f(y):\n    a\nf(*[c])\n"),
        (
            "def f(x, y, z):\n    a\nxs = b, c, d\ng = grad(f)\nh = compile(g)\nh(*xs)\n",
            "def f(x, z):\n    a\nxs = b, d\ng = grad(f)\nh = compile(g)\nh(*xs)\n",
        ),
        (
            "class A(M):\n    def __init__(self, n):\n        b\n\n    def forward(self, x, y):\n        c\n\n"
            "m = A(1)\nm(2, 3)\nA(4)(5, 6)\n",
            "class A(M):\n    def __init__(self, n):\n        b\n\n    def forward(self, x):\n        c\n\n"
            "m = A(1)\nm(2)\nA(4)(5)\n",
        ),
    ],
)
def test_a_parameter_goes_with_arguments_that_reach_it_indirectly(text, among):
    assert among in made(text)


@pytest.mark.parametrize(
    ("text", "unlikely"),
    [
        ("import torch\nx = torch.sin(y)\n", ["x = torch\n", "x = torch.sin()\n"]),
        ("from torch import nn\nx = nn.Linear(2, 3)\n", ["x = nn\n", "x = 2\n"]),
        ("import torch\nx = torch.func.grad(y)(z)\n", ["x = torch.func\n", "x = torch.func(z)\n"]),
        ("x = f(*y)\n", ["x = f(*1)\n"]),
        ("x = self.first(y)\n", ["x = self\n"]),
        ("a, b = f(x), g(y)\n", ["a, b = 1\n", "a, b = f(x)\n", "a, b = g(y),\n", "a, = f(x), g(y)\n"]),
        ("a, b = f(x)\n", ["a, b = 1\n", "a, = f(x)\n"]),
        ("class A(B):\n    pass\n", ["class A(1):\n    pass\n"]),
    ],
)
def test_edits_that_would_always_raise_are_not_made(text, unlikely):
    head = text[: text.index("\n") + 1] if "import" in text else ""
    assert not {head + each for each in unlikely} & made(text)


def test_an_imported_value_may_stand_for_its_expression():
    assert "from sizes import N\nx = N\n" in made("from sizes import N\nx = f(N, y)\n")


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("def f(a=1, b=2):\n    return a\nf(3)\n", "def f(a, b=2):\n    return a\nf(3)\n"),
        ("xs = (a,)\ndef f(x):\n    y\nf(*xs)\n", "xs = a\ndef f(x):\n    y\nf(*xs)\n"),
        ("xs = a,\ndef f(x):\n    y\nf(*xs)\n", "xs = a\ndef f(x):\n    y\nf(*xs)\n"),
    ],
)
def test_an_edit_that_libcst_refuses_is_left_out(text, among):
    assert among in made(text) and all(compile(code, "edit.py", "exec") for code in made(text))


@pytest.mark.parametrize(
    ("text", "results"),
    [
        (
            "def f(x, *, a=1, b):\n    b\nf(1, a=2, b=3)\n",
            ["def f(*, a=1, b):\n    b\nf(a=2, b=3)\n", "def f(x, *, b):\n    b\nf(1, b=3)\n"],
        ),
        ("def f(x, *, a):\n    x\nf(1, a=2)\n", ["def f(x):\n    x\nf(1)\n"]),
        ("def f(x, y, /):\n    x\nf(1, 2)\n", ["def f(x, /):\n    x\nf(1)\n"]),
        ("def f(x, *rest, k):\n    x, k\nf(1, 2, *z, k=3)\n", ["def f(x, *, k):\n    x, k\nf(1, k=3)\n"]),
        ("def f(x, **rest):\n    x\nf(1, a=2, **z)\n", ["def f(x):\n    x\nf(1)\n"]),
        (
            "class A:\n    def f(self, x, *rest):\n        x\n\n\nA().f(1, 2)\n",
            ["class A:\n    def f(self, x):\n        x\n\n\nA().f(1)\n"],
        ),
        ("def f(x, backend):\n    x\nf(1, b)\n", []),
        ("def f(*a, **b):\n    g(*a, **b)\nf(1, c=2)\n", []),
    ],
)
def test_a_parameter_of_any_kind_goes_if_nothing_reads_it(text, results):
    assert edited(text, "parameters") == results


def test_a_static_method_has_no_self():
    text = "class A:\n    @staticmethod\n    def f(a, b):\n        c\n\n\nA.f(1, 2)\n"
    found = set(edited(text, "parameters"))
    assert found == {text.replace("a, b", "b").replace("1, 2", "2"), text.replace("a, b", "a").replace("1, 2", "1")}
