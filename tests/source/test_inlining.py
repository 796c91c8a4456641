"""Edits that put a definition where it is used."""

import re
import textwrap

import pytest

from minifier import search
from minifier.case import EAGER
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.source.reduce import reduce_source
from minifier.source.reduce_script import ReducedScript
from tests.source.edited import FORMS, edited
from tests.source.fake_lab import FakeLab


def codes(text, *passes):
    return [code.strip() for code in edited(text, *passes)]


def made(text):
    return codes(text, "functions", "imports")


def source(text):
    return textwrap.dedent(text).strip()


def test_a_function_that_only_calls_another():
    text = """
        def forward(points):
            vmap(hessian(energy))(points)
        torch.compile(forward, backend="eager")(points)
    """
    assert 'torch.compile(vmap(hessian(energy)), backend="eager")(points)' in made(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(a, b):\n    return g(b, a)\nrun(f)\n",
        "def f(a):\n    return g(a, 1)\nrun(f)\n",
        "def f(a):\n    return a(a)\nrun(f)\n",
        "def f(*a):\n    return g(*a)\nrun(f)\n",
        "def f(a):\n    b\n    return g(a)\nrun(f)\n",
        "@d\ndef f(a):\n    return g(a)\nrun(f)\n",
        "class A:\n    def f(self):\n        return g(self)\nrun(f)\n",
    ],
)
def test_a_function_that_does_more_stays(text):
    assert made(text) == []


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("def f(a):\n    return a + 1\ny = f(x) * 2\n", "y = (x + 1) * 2"),
        ("def f(a, b=3):\n    return g(a, b + 1)\ny = h(f(x))\n", "y = h(g(x, 3 + 1))"),
        ("def f(a, b):\n    return a @ b\ny = f(b=u + v, a=x)\n", "y = x @ (u + v)"),
        ("def f(a):\n    b = g(a)\n    return b + a\ny = f(x)\n", "a = x\nb = g(a)\ny = b + a"),
        ("def f(x):\n    g(x)\n    return\nf(x)\n", "g(x)\nNone"),
        ("def f(x):\n    for y in x:\n        g(y)\nf(x)\n", "for y in x:\n    g(y)"),
        ("def f(x):\n    for y in x:\n        g(y)\nz = f(x)\n", "for y in x:\n    g(y)\nz = None"),
        ("def f():\n    def g():\n        return 1\n    g()\nf()\n", "def g():\n    return 1\ng()"),
        (
            "def h():\n    return f()\ndef f():\n    if x:\n        pass\n",
            "def h():\n    if x:\n        pass\n    return None",
        ),
        (
            "def h(x):\n    def f(a):\n        b = a\n        return b\n    return f(x)\n",
            "def h(x):\n    a = x\n    b = a\n    return b",
        ),
    ],
)
def test_a_function_that_is_called_once(text, result):
    assert result in made(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(a):\n    return a + 1\ny = f(x) + f(y)\n",
        "def f(a):\n    return a + 1\nrun(f)\n",
        "def f(a):\n    return f(a - 1)\ny = f(x)\n",
        "def f(a):\n    return a * a\ny = f(x + 1)\n",  # computed twice
        "def f(a):\n    if a:\n        return 1\n    return 2\ny = f(x)\n",
        "def f(a, b):\n    return a + b\ny = f(x)\n",
        "def f(a, b):\n    return a + b\ny = f(*x)\n",
    ],
)
def test_a_function_whose_body_cannot_take_the_place_of_its_call(text):
    assert made(text) == []


def test_an_imported_name_is_written_in_full():
    text = "import torch\nfrom torch.func import grad, vmap as v\nv(grad(f))(x.grad, grad=1)\n"
    assert made(text) == ["import torch\ntorch.func.vmap(torch.func.grad(f))(x.grad, grad=1)"]
    assert made("import torch\nimport torch.nn as nn\nnn.ReLU()\n") == ["import torch\ntorch.nn.ReLU()"]
    assert made("from torch import nn\nnn.ReLU()\n") == []
    assert made("import torch\nfrom torch import nn\nnn.A(nn.B(nn.C(nn.D())))\n") == []


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a = f(1)\nb = g(a)(2)\n", "b = g(f(1))(2)"),
        ("a = f(1)\nb = 2\nc = g(a, b)\n", "b = 2\nc = g(f(1), b)"),
        ("a = x + 1\nb = g(a)\n", "b = g(x + 1)"),
        ("a = x + 1\nb = a.sum()\n", "b = (x + 1).sum()"),
        ("h = f(x)\nh = g(h)\nk(h, h)\n", "h = g(f(x))\nk(h, h)"),
    ],
)
def test_a_value_that_is_used_once(text, result):
    assert result in codes(text, *FORMS)


@pytest.mark.parametrize(
    "text",
    [
        "a = x + 1\ng(a, a)\n",
        "a = x + 1\nfor i in y:\n    g(a)\n",
        "a = x + 1\ndef f():\n    return a\n",
        "a = x + 1\nb = lambda: a\n",
        "a = x + 1\nb = [a for _ in y]\n",
        f"a = x + 1\n{'g' * 120}(a)\n",
    ],
)
def test_a_value_that_is_used_more_often_stays(text):
    assert codes(text, *(form for form in FORMS if form != "targets")) == []


def test_an_unused_value_gives_way_to_its_sub_expression():
    assert "f(x)" in codes("f(x).shape\n")
    assert "f(x)" in codes("assert f(x)\n")


def test_equal_numbers_change_together():
    text = "a = f(4, 16, 0.05)\nb = g(4, 1, 1.0)\n"
    assert codes(text, "numbers") == [
        source(each)
        for each in (
            "a = f(1, 16, 0.05)\nb = g(1, 1, 1.0)",
            "a = f(4, 1, 0.05)\nb = g(4, 1, 1.0)",
            "a = f(4, 16, 1.0)\nb = g(4, 1, 1.0)",
        )
    ]
    assert codes("a = f(1, 2, 0.0)\n", "numbers") == ["a = f(1, 1, 0.0)"]


@pytest.mark.parametrize(("fewest", "most_probes"), [(1, 1), (3, 3), (37, 14), (999, 14)])
def test_the_smallest_number_that_fails_is_found_by_bisection(fewest, most_probes):
    lab = FakeLab(lambda source: (match := re.fullmatch(r"f\((\d+)\)\n", source)) and int(match[1]) >= fewest)
    reduced = reduce_source(lab, "f(1000)\n", (), search.Budget())
    tried = [text for text in lab.verdicts if re.fullmatch(r"f\(\d+\)\n", text) and text != "f(1000)\n"]
    assert reduced.source == f"f({fewest})\n" and len(tried) <= most_probes


def test_comments_go():
    text = "# above\nimport a  # noqa: F401\n\n# about b\ndef b():  # type: ignore\n    # inside\n    return 1  # one\n"
    assert codes(text, "comments") == ["import a\n\ndef b():\n    return 1"]
    assert codes("a = '# not one'\n", "comments") == []


def test_a_block_begins_without_a_blank_line():
    text = "class A:\n    def f(self):\n        # why\n        return 1\n"
    blank = text.replace("class A:\n", "class A:\n\n").replace("        # why", "\n        # why")
    failure = Failure(Fingerprint(Stage.COMPILE, Kind.EXIT), "exit", "exit status 1")
    assert (
        ReducedScript(blank, 9, 2, True, (), 0.0, 0.0, failure, (), ())
        .text(EAGER)
        .startswith(text + "\n# exit: exit status 1\n")
    )


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("def f(x):\n    y = g(x)\n    return y\nf(a).backward()\n", "x = a\ny = g(x)\ny.backward()"),
        ("def f(x):\n    y = g(x)\n    return x + y\nk(f(a), 1).b\n", "x = a\ny = g(x)\nk(x + y, 1).b"),
        ("def f():\n    y = g(1)\n    return y + 1\nf().b\n", "y = g(1)\n(y + 1).b"),
        ("def f():\n    g(1)\n    h(2)\nf()\n", "g(1)\nh(2)"),
    ],
)
def test_a_function_of_some_lines_that_is_called_once(text, result):
    assert result in made(text)


def test_a_function_stays_whose_lines_cannot_go_ahead_of_its_call():
    assert made("def f(x):\n    y = g(x)\n    return y\nk(lambda: f(a))\n") == []
