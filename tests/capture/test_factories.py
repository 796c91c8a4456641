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


def main(level=3):
    def backend(gm, inputs):
        return level
    MADE.append(backend)


def main_with_status(level=3):
    def backend(gm, inputs):
        return level
    MADE.append(backend)
    return 0


def main_with_result(level=3):
    def backend(gm, inputs):
        return level
    MADE.append(backend)
    loss = level * 2
    return loss


def main_with_computed_result(level=3):
    def backend(gm, inputs):
        return level
    MADE.append(backend)
    return max(level, 2)


def main_that_counts(level=3):
    def backend(gm, inputs):
        nonlocal level
        level += 1
        return level
    MADE.append(backend)
    return backend


def main_with_a_lambda(level=3):
    def helper(gm, inputs):
        return level
    MADE.append(lambda gm, inputs: helper(gm, inputs))


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


@pytest.mark.parametrize(
    "name",
    [
        "main",
        "main_with_status",
        "main_with_result",
        "main_with_computed_result",
        "main_that_counts",
        "main_with_a_lambda",
    ],
)
def test_a_function_that_makes_it_for_itself(factories, name):
    getattr(factories, name)()
    with pytest.raises(CannotSave):
        write_object(factories.MADE[-1])
