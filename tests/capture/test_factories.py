"""Which functions are called again to make a backend that they have made: those that give it back, and no others."""

import sys
from types import ModuleType

import pytest

from minifier.capturing.object_source import write_object
from minifier.errors import CannotSave

SOURCE = """
import contextlib



def gives(level):
    def backend(gm, inputs):
        return level
    return backend


def a_lambda(level):
    made = lambda gm, inputs: level
    return made


def branches(level):
    def backend(gm, inputs):
        return level
    with contextlib.nullcontext():
        return backend if level else None


MADE = []
"""


@pytest.fixture
def factories(imported):
    return imported("odd_factories", SOURCE)


@pytest.mark.parametrize("name", ["gives", "a_lambda", "branches"])
def test_a_function_that_gives_it_back(factories, name):
    written = write_object(getattr(factories, name)(7))
    assert (written.expression, written.imports) == (f"{name}(level=7)", (f"from odd_factories import {name}",))


KEEPS = """

def main(level=3):
    def backend(gm, inputs):
        {nonlocal_}
        return level
    MADE.append({kept})
    {end}
"""
ENDS = ["pass", "return 0", "loss = level * 2; return loss", "return max(level, 2)"]


@pytest.mark.parametrize(
    "rest",
    [
        *({"end": end} for end in ENDS),
        {"nonlocal_": "nonlocal level; level += 1", "end": "return backend"},
        {"kept": "lambda gm, inputs: backend(gm, inputs)"},
    ],
    ids=["nothing", "a status", "a result", "a computed result", "counts", "a lambda"],
)
def test_a_function_that_makes_it_for_itself(imported, rest):
    text = KEEPS.format(**{"nonlocal_": "pass", "kept": "backend", "end": "pass", **rest})
    factories = imported("odd_factories", SOURCE + text)
    factories.main()
    with pytest.raises(CannotSave):
        write_object(factories.MADE[-1])


READS = """
import json
import sys
from pathlib import Path


class Compiler:
    def __init__(self, banned=()):
        self.banned = banned

    def __call__(self, gm, inputs):
        return gm.forward


def load():
    return json.loads((Path(__file__).parent / "banned.json").read_text())


config = load()
if config:
    of_a_file = Compiler(config["banned"])
of_an_argument = Compiler(sys.argv[0])
of_neither = Compiler(["tanh"])
"""


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("of_a_file", 'Compiler(banned=["tanh"])'),
        ("of_an_argument", 'Compiler(banned="failing.py")'),
        ("of_neither", "of_neither"),
    ],
)
def test_an_object_that_the_script_makes_of_what_it_reads_is_made_of_its_attributes(
    monkeypatch, tmp_path, name, expression
):
    (tmp_path / "banned.json").write_text('{"banned": ["tanh"]}')
    (tmp_path / "failing.py").write_text(READS)
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "failing.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.setattr(sys, "argv", ["failing.py"])
    exec(READS, vars(script))
    assert write_object(getattr(script, name)).expression == expression
