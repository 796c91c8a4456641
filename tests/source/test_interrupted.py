"""Ctrl-C while a script is reduced: what was reached stays."""

import pytest

from minifier import search
from minifier.source.reduce import reduce_source
from tests.source.fake_lab import FakeLab

SOURCE = "a = 1\nb = f(a, 2)\nc = g(b)\nh(a, b, c, 4)\nfail(a + b)\n"


class InterruptedLab(FakeLab):
    """Every source with `fail` shows the failure; the n-th question is interrupted."""

    def __init__(self, left):
        super().__init__(lambda source: "fail" in source)
        self.left = left

    def holds(self, sources):
        self.left -= len(sources)
        if self.left < 0:
            raise KeyboardInterrupt
        return super().holds(sources)


def test_without_an_interruption_it_is_minimal():
    done = reduce_source(InterruptedLab(1000), SOURCE, (), search.Budget())
    assert (done.source, done.minimal) == ("fail()\n", True)


@pytest.mark.parametrize("asked", range(1, 15))
def test_what_was_reached_stays(asked):
    done = reduce_source(InterruptedLab(asked), SOURCE, (), search.Budget())
    assert "fail" in done.source and (not done.minimal or done.source == "fail()\n")
    assert len(done.source) <= len(SOURCE)


@pytest.mark.parametrize("budget", [search.Budget(max_probes=0), search.Budget(deadline=0.0)])
def test_no_probe_is_made_without_a_budget(budget):
    lab = InterruptedLab(1000)
    done = reduce_source(lab, SOURCE, (), budget)
    assert (done.source, done.minimal, lab.total) == (SOURCE, False, 0)


@pytest.mark.parametrize("most", range(1, 15))
def test_one_budget_for_statements_and_edits(most):
    lab = InterruptedLab(1000)
    done = reduce_source(lab, SOURCE, (), search.Budget(max_probes=most))
    assert lab.total <= most and "fail" in done.source and (not done.minimal or done.source == "fail()\n")
