"""Ctrl-C while a script is reduced: what was reached stays."""

import pytest

from minifier import search
from minifier.source.reduce import _simplified, reduce_source

SOURCE = "a = 1\nb = f(a, 2)\nc = g(b)\nh(a, b, c, 4)\nfail(a + b)\n"


class InterruptedLab:
    """Every source with `fail` shows the failure; the n-th question is interrupted."""

    whole, workers, phase, total = (), 1, "", 0

    def __init__(self, asked):
        self.left = asked

    def holds(self, sources):
        self.total += len(sources)
        self.left -= len(sources)
        if self.left < 0:
            raise KeyboardInterrupt
        return ["fail" in source for source in sources]


def test_without_an_interruption_it_is_minimal():
    done = reduce_source(InterruptedLab(1000), SOURCE, (), search.Budget())
    assert (done.source, done.minimal) == ("fail()\n", True)


@pytest.mark.parametrize("asked", range(1, 15))
def test_what_was_reached_stays(asked):
    done = reduce_source(InterruptedLab(asked), SOURCE, (), search.Budget())
    assert "fail" in done.source and (not done.minimal or done.source == "fail()\n")
    assert len(done.source) <= len(SOURCE)


@pytest.mark.parametrize("budget", [search.Budget(max_probes=0), search.Budget(deadline=0.0)])
def test_edits_end_with_the_budget(budget):
    """The search over statements has its own count."""
    lab = InterruptedLab(1000)
    assert _simplified(lab, SOURCE, budget, ()) == (SOURCE, False) and lab.total == 0


def test_edits_within_the_budget():
    lab = InterruptedLab(1000)
    smaller, is_finished = _simplified(lab, SOURCE, search.Budget(max_probes=5), ())
    assert (lab.total, is_finished) == (5, False) and "fail" in smaller and len(smaller) < len(SOURCE)
