"""Which functions are called again to make a backend that they have made: those that give it back, and no others."""

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
