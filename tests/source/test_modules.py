"""Modules beside a script, whose definitions take the place of its imports."""

import libcst as cst
import pytest

from minifier.capturing.script import Program
from minifier.repro.source.modules import with_modules
from minifier.repro.source.reduce_script import as_run

SHAPES = """
import math

SCALE = 3.0
TABLE = {"a": 1}


def unused(x):
    return x


def stretch(x):
    return inner(x) * SCALE


def inner(x):
    return math.floor(x)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shapes.py").write_text(SHAPES)
    (tmp_path / "broken.py").write_text("x = (\n")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "deep.py").write_text("value = 1\nother = 2\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("from shapes import stretch\nresult = stretch(1.5)\n", 3.0),
        ("from shapes import stretch as wide\nresult = wide(1.5)\n", 3.0),
        ("import shapes\nresult = shapes.stretch(1.5)\n", 3.0),
        ("import shapes as s\nresult = s.TABLE['a']\n", 1),
        ("import math\nfrom shapes import *\nresult = SCALE\n", 3.0),
        ("def f():\n    from shapes import SCALE\n    return SCALE\nresult = f()\n", 3.0),
        ("from inside.deep import value\nresult = value\n", 1),
    ],
)
def test_an_import_becomes_what_it_takes(folder, given, result):
    (module,) = with_modules(cst.parse_module(given), [folder])
    names = {}
    exec(module.code, names)
    assert names["result"] == result
    assert not {"unused", "shapes", "other"} & set(names) or "*" in given


@pytest.mark.parametrize(
    "given",
    [
        "import shapes\nf(shapes)\n",
        "import shapes\nshapes.missing\n",
        "from shapes import missing\n",
        "from shapes import stretch\nSCALE = 1\n",
        "import broken\nbroken.x\n",
        "import json\njson.dumps\n",
        "from . import shapes\n",
    ],
)
def test_an_import_that_stays(folder, given):
    assert list(with_modules(cst.parse_module(given), [folder])) == []


class Module:
    """A program that `python -m` runs."""

    is_module, arguments = True, ()

    def __init__(self, target, text):
        self.target, self._text = target, text

    def source(self):
        return self._text


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("from .shapes import x\n", "from a.b.shapes import x\n"),
        ("from . import shapes\n", "from a.b import shapes\n"),
        ("from ..c.d import (\n    x,\n)\n", "from a.c.d import (\n    x,\n)\n"),
        ("from .... import x\n", "from .... import x\n"),
        ("s = 'from . import x'\n", "s = 'from . import x'\n"),
    ],
)
def test_relative_imports_are_written_out(given, made):
    assert as_run(Module("a.b.failing", given)) == made


def test_arguments_are_set_behind_an_import_from_the_future(tmp_path, monkeypatch):
    script = tmp_path / "failing.py"
    script.write_text('"""Says."""\nfrom __future__ import annotations\nimport sys\nresult = sys.argv[1:]\n')
    names = {}
    monkeypatch.setattr("sys.argv", ["failing.py"])
    exec(compile(as_run(Program(str(script), ("--size", "3"))), "failing.py", "exec"), names)
    assert names["result"] == ["--size", "3"] and names["__doc__"] == "Says."
