"""The passes over a script that the user leaves out."""

import pytest

from minifier import search
from minifier.source.reduce import reduce_source
from tests.source.fake_lab import FakeLab

SOURCE = "import os\nvalue = f(7, 2)\nunused = 3\nfail(value)  # here\n"


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (lambda name: True, "fail()\n"),
        (lambda name: False, "fail(value)  # here\n"),
        (lambda name: name == "comments", "fail(value)\n"),
        (lambda name: name != "elements", "fail(1)\n"),
    ],
    ids=["all", "none", "comments", "all-but-elements"],
)
def test_passes_that_are_not_wanted_are_not_tried(wanted, left):
    lab = FakeLab(lambda source: "fail" in source)
    done = reduce_source(lab, SOURCE, (), search.Budget(), wants=wanted)
    assert (done.source, done.minimal) == (left, True)
