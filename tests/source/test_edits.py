"""Edits of a script: what they take away, and what stays since the edit could only break the script."""

import pytest

from minifier.repro.source.script import with_eager_backend
from tests.source.edited import edited

CALLED_ONCE = ("functions", "imports")


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("for i in range(3):\n    a\n    b\n", "a\nb\n"),
        ("for i in range(3):\n    a\n    b\n", "i = 0\na\nb\n"),
        ("for i in [b, *c, d]:\n    a\n", "i = d\na\n"),
        ("for i in self.xs:\n    a\n", "i = self.xs[-1]\na\n"),
        ("for i, j in zip(x, y.z):\n    a\n", "i, j = x[0], y.z[0]\na\n"),
        ("with x:\n    a\n", "a\n"),
        ("if x:\n    a\nelse:\n    b\n", "a\n"),
        ("if x:\n    a\nelse:\n    b\n", "if x:\n    a\n"),
        ("if a:\n    b\nelif c:\n    d\nelse:\n    e\n", "if a:\n    b\nelse:\n    e\n"),
        ("if a:\n    b\nelif c:\n    d\nelse:\n    e\n", "if a:\n    b\nelse:\n    d\n"),
        ("x = f(a, b)\n", "x = b\n"),
        ("import a\nx = a.C(b=1)\n", "import a\nx = a.C()\n"),
        ("x = y\n", "x = 1\n"),
        ("x = a.b().c(d)\n", "x = a.b()\n"),
        ("x = a + b * c\n", "x = a + c\n"),
        ("x = a[:, k]\n", "x = a[k]\n"),
        ("x = [f(1)][0]\n", "x = f(1)\n"),
        ("x = [a, b]\n", "x = [b]\n"),
        ("x = f'{a} and {b}'\n", "x = b\n"),
        ("assert f(x)\n", "f(x)\n"),
        ("from sizes import N\nx = f(N, y)\n", "from sizes import N\nx = N\n"),
        ("@a\n@b(1)\ndef f(x: int = 3) -> int:\n    return x\n", "@a\ndef f(x: int = 3) -> int:\n    return x\n"),
        ("def f(x: int = 3):\n    return x\n", "def f(x = 3):\n    return x\n"),
        ("def f(x):\n    return x\n", "def f(x):\n    return\n"),
        ("class A(B, metaclass=C):\n    a\n", "class A(B):\n    a\n"),
        ("from a import b, c\n", "from a import c\n"),
        ("def f():\n    global a, b\n", "def f():\n    global a\n"),
        ("def f():\n    global a, b\n", "def f():\n    global b\n"),
        ("with a as b, c:\n    d\n", "with c:\n    d\n"),
        # a parameter, with the arguments that reach it
        ("class A:\n def __init__(s, n=1):\n  b\nA()(c)\n", "class A:\n def __init__(s):\n  b\nA()(c)\n"),
        ("def f(x, y=1):\n    a\ngrad(f)(b, c)\n", "def f(x):\n    a\ngrad(f)(b)\n"),
        (
            "class A(M):\n    def forward(self, x, y):\n        c\n\nm = A()\nm(2, 3)\nA()(5, 6)\n",
            "class A(M):\n    def forward(self, x):\n        c\n\nm = A()\nm(2)\nA()(5)\n",
        ),
        (
            "class A:\n    @staticmethod\n    def f(a, b):\n        c\n\nA.f(1, 2)\n",
            "class A:\n    @staticmethod\n    def f(b):\n        c\n\nA.f(2)\n",
        ),
        (
            "class A:\n    def forward(self, x, y):\n        x\n\nself.b = L([A()])\nfor a in self.b:\n    a(1, 2)\n",
            "class A:\n    def forward(self, x):\n        x\n\nself.b = L([A()])\nfor a in self.b:\n    a(1)\n",
        ),
        ("def f(x, *, a=1, b):\n    b\nf(1, a=2, b=3)\n", "def f(x, *, b):\n    b\nf(1, b=3)\n"),
        ("def f(x, *, a):\n    x\nf(1, a=2)\n", "def f(x):\n    x\nf(1)\n"),
        ("def f(x, y, /):\n    x\nf(1, 2)\n", "def f(x, /):\n    x\nf(1)\n"),
        # a target or a variable
        ("a = g(y for x in y)\n", "a = g(y)\n"),
        ("a = f(x)\n", "f(x)\n"),
        ("a += x.y\n", "x.y\n"),
        ("a: int = x + 1\n", "x + 1\n"),
        ("a = b = f(x)\n", "b = f(x)\n"),
        ("if (a := f(x)):\n    b\n", "if f(x):\n    b\n"),
        ("a = x, y\nf(*a)\n", "f(*(x, y))\n"),
        ("a, b = 2, 3\nf(a, b)\ng(a)\n", "b = 3\nf(2, b)\ng(2)\n"),
        ("a = x.y\nb = a.a\n", "b = x.y.a\n"),
        ("a = 1\nb = f(a, a=a)\n", "b = f(1, a=1)\n"),
        ("a = x\na = f(a)\nb = a\n", "a = f(x)\nb = a\n"),
        ("a.b[c] = f(x)\ng(a.b[c])\n", "g(f(x))\n"),
        ("a.b = f\na.b = g(a.b)\n", "a.b = g(f)\n"),
        ("a = x.chunk(2)[0]\n", "a = x\n"),
        ("def f(x):\n    a = x + 1\n    return a @ x\n", "def f(x):\n    return (x + 1) @ x\n"),
        # a function in the place of its call
        ("def f(x):\n    g(h(k))(x)\nrun(f, 1)(x)\n", "run(g(h(k)), 1)(x)\n"),
        ("def f(a, b=3):\n    return g(a, b + 1)\ny = h(f(x))\n", "y = h(g(x, 3 + 1))\n"),
        ("def f(a, b):\n    return a @ b\ny = f(b=u + v, a=x)\n", "y = x @ (u + v)\n"),
        ("def f(a):\n    b = g(a)\n    return b + a\ny = f(x)\n", "a = x\nb = g(a)\ny = b + a\n"),
        ("def f(x):\n    for y in x:\n        g(y)\nz = f(x)\n", "for y in x:\n    g(y)\nz = None\n"),
        ("def f():\n    y = g(1)\n    return y + 1\nf().b\n", "y = g(1)\n(y + 1).b\n"),
        ("def f(a):\n    return a + 1\ny = f(x) + f(y)\n", "y = (x + 1) + (y + 1)\n"),
        ("def f(m, x):\n    return m(x)\na = f(n, 1)\nb = f(n, 2)\n", "a = n(1)\nb = n(2)\n"),
        (
            "class A:\n    a = 1\n\n    def f(self, b):\n        self.b[b] = 1\n\nx = A()\nx.f(2)\n",
            "class A:\n    a = 1\n\nx = A()\nself = x\nb = 2\nself.b[b] = 1\n",
        ),
        ("def f():\n for i in n:\n  yield i + 1\nfor x in f():\n g(x)\n", "for i in n:\n x = i + 1\n g(x)\n"),
        ("@a\ndef f():\n    b\n    yield\n    c\nwith f():\n    g()\n", "b\ng()\nc\n"),
        # a base or an attribute in the place of a class
        ("class A(B):\n    pass\n\nclass C(A):\n    b\n", "\nclass C(B):\n    b\n"),
        ("class N(M):\n    def __init__(self, n):\n        self.b = B(n)\n\nx = N(g(2))\n", "\nx = B(g(2))\n"),
        (
            "class N:\n    def __init__(self, n):\n        self.n = n\n\n    def f(self, x):\n        g(self.n)\n\n"
            "a = N(k(2))\na.f(a.n)\n",
            "\n\ndef f(x):\n    g(n)\nn = k(2)\nn = n\nf(n)\n",
        ),
        ("class N:\n    def f(self, x):\n        x\n\ny = N().f(1)\n", "\n\ndef f(x):\n    x\n\ny = f(1)\n"),
        (
            "class N:\n    def __call__(self, x):\n        x\n\ncall = N()\ncall(1)\n",
            "\n\ndef call_(x):\n    x\n\ncall = call_\ncall(1)\n",
        ),
        (
            "class N:\n def __init__(s):\n  s.n = 1\n\n def forward(s, x):\n  x\n\ny = torch.compile(N())\ny.n\n",
            "\n\ndef forward(x):\n x\nn = 1\n\ny = torch.compile(forward)\nn\n",
        ),
        (
            "class N:\n def __iter__(s):\n  yield\ndef f():\n for x in N():\n  x\n",
            "\n\ndef iter():\n yield\ndef f():\n for x in iter():\n  x\n",
        ),
        (
            "class N:\n def __init__(s):\n  s.n = k\n\n def f(s):\n  s.n\n\ndef g():\n a = N()\n a.f()\n",
            "\n\ndef f():\n n\n\ndef g():\n global n\n n = k\n f()\n",
        ),
        ("import torch\nm.n.compile(a)\ntorch.x\n", "import torch\nm.n = torch.compile(m.n, a)\ntorch.x\n"),
        ("for a, b in zip(x, y, strict=True):\n    b\n", "for b in y:\n    b\n"),
        ("[c for a, b, c in zip(x, y, z)]\n", "[c for a, c in zip(x, z)]\n"),
        ("for a, b in enumerate(x):\n    b\n", "for b in x:\n    b\n"),
        # a constant
        ("def f(x, n):\n    x * n\nf(a(), 2)\nf(b(), 2)\n", "def f(x):\n    x * 2\nf(a())\nf(b())\n"),
        ("def f():\n    g(a)\na = 3\n", "def f():\n    g(3)\n"),
        ("def f():\n    g(a)\na = b\na = h(a)\n", "def f():\n    g(a)\na = h(b)\n"),
        # an imported name
        ("import torch\nfrom torch.func import vmap\nvmap(f)(x.vmap)\n", "import torch\ntorch.func.vmap(f)(x.vmap)\n"),
    ],
)
def test_an_edit(text, among):
    assert among in edited(text)


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        ((), "x\n"),
        (("targets",), "a = x\nb = 1\nc: int\n"),  # without the target nothing would be computed
        (("parameters",), "def f(x, backend):\n    x\nf(g(1), b)\n"),
        (("parameters",), "def f(x):\n    x\nf(1)\nf(2)\n"),
        (("parameters",), "def f(x):\n    x\ny = g()\nf(y)\n"),  # a function with a variable of the script stays one
        (("aliases",), "def f():\n    g(a)\na = x + 1\n"),
        (("parameters",), "def f(*a, **b):\n    g(*a, **b)\nf(1, c=2)\n"),
        (("aliases",), "a, *b = x, y\nf(b)\n"),
        (("aliases",), "a = [1]\nf(*a, a)\n"),
        (("aliases",), "a = x + 1\nb = lambda: a\n"),
        (("aliases",), "def f(x):\n    a = g(x)\n    return a + a\n"),
        (("aliases",), f"a = x + 1\n{'g' * 120}(a)\n"),  # the line would be too long
        (("aliases",), "x1 = f(x0, x0).T\nx2 = f(x1, x1).T\ng(x2, x2)\n"),
        (("classes",), "class A(M):\n    def __init__(self, n):\n        self.a = n\n\n    def f(self):\n        n\n"),
        (("classes",), "class A(M):\n    b = [1]\n\n    def forward(self, x):\n        return x\n"),
        (("classes",), "class A(M):\n    def __len__(self):\n        return 3\n"),
        (CALLED_ONCE, "def f(a, b):\n    return g(b, a)\nrun(f)\n"),
        (CALLED_ONCE, "@d\ndef f(a):\n    return g(a)\nrun(f)\n"),
        (CALLED_ONCE, "def f(a):\n    return g(a) + 100000000000\ny = f(x), f(y), f(z), f(a)\n"),  # it would be longer
        (CALLED_ONCE, "class A:\n    def f(self):\n        self.b = 1\n\nA().f()\n"),
        (CALLED_ONCE, "def f(a):\n    return f(a - 1)\ny = f(x)\n"),
        (CALLED_ONCE, "def f(a):\n    return a * a\ny = f(x + 1)\n"),
        (CALLED_ONCE, "def f(a):\n    if a:\n        return 1\n    return 2\ny = f(x)\n"),
        (CALLED_ONCE, "def f(a, b):\n    return a + b\ny = f(*x)\n"),
        (CALLED_ONCE, "def f(x):\n    y = g(x)\n    return y\nk(lambda: f(a))\n"),
        (CALLED_ONCE, "from torch import nn\nnn.ReLU()\n"),
        (CALLED_ONCE, "def f():\n    yield 1\n    yield 2\nfor x in f():\n    g(x)\n"),
        (("imports",), "import acme\nfrom acme.deep import f\nf()\n"),
    ],
)
def test_no_edit(passes, text):
    assert edited(text, *passes) == []


@pytest.mark.parametrize(
    ("text", "unlikely"),
    [
        ("from torch import nn\nx = nn.Linear(2, 3)\n", ["x = nn\n", "x = 2\n"]),
        ("x = f(*y)\n", ["x = f(*1)\n"]),
        ("x = self.first(y)\n", ["x = self\n"]),
        ("class A(B):\n    pass\n", ["class A(1):\n    pass\n"]),
    ],
)
def test_an_edit_that_would_always_raise_is_not_made(text, unlikely):
    head = text[: text.index("\n") + 1] if "import" in text else ""
    assert not {head + each for each in unlikely} & set(edited(text))


def test_every_edit_takes_something_away():
    text = "@a(1)\nclass B(C):\n    def f(self, x=1):\n        for y in x:\n            return self.gone(y + 1)[0]\n"
    assert all(len(code) <= len(text) and code != text for code in edited(text))


@pytest.mark.parametrize(
    "text",
    [
        'comp = functools.partial(torch.compile, backend="my")\ncomp(g)\n',
        'torch.compile(g, **{"backend": "my", "dynamic": True})\n',
        'kw = {"backend": "my"}\ntorch.compile(g, **kw)\n',
        'torch.compile(g, backend=pick("a", "my"))\n',
        'torch.compile(f, backend="my", fullgraph=True)\n',
    ],
)
def test_the_backend_stays(text):
    codes = [code for code in edited(text, "elements", "operands") if "compile" in code]
    assert all("my" in code for code in codes) and (codes or "fullgraph" not in text)


def test_a_parameter_that_names_the_backend_stays():
    text = 'def compile(fn, backend="inductor"):\n    return torch.compile(fn, backend=backend)\ncompile(g, "my")\n'
    assert all('"my"' in code for code in edited(text, "parameters"))


def test_comments_go():
    text = (
        "# above\nimport a  # noqa: F401\n\n# about b\ndef b():  # type: ignore\n    # inside\n    return '#'  # one\n"
    )
    (code,) = edited(text, "comments")
    assert code.split() == ["import", "a", "def", "b():", "return", "'#'"]


def test_an_edit_that_libcst_refuses_is_left_out():
    text = "xs = (a,)\ndef f(x, y=1):\n    y\nf(*xs)\n"
    codes = edited(text, "targets", "aliases", "elements")
    assert codes and all(compile(code, "edit.py", "exec") for code in codes)


def test_the_backend_becomes_eager():
    source = "@torch.compile\ng = torch.compile(f, mode='x')\nn.compile(backend=b, dynamic=True)\nre.compile(x)\n"
    eager = with_eager_backend(source.replace("\ng", "\ndef f(x): ...\ng"))
    expected = "@torch.compile(E)\ndef f(x): ...\ng = torch.compile(f, E)\nn.compile(dynamic=True, E)\nre.compile(x)\n"
    assert eager.replace('backend="eager"', "E") == expected
