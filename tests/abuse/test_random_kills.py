"""Kills of the command, its stages and its probes at random moments: the result is the undisturbed one."""

import os

import pytest
from kills import VICTIMS, Killer

KILLS = int(os.environ.get("KILLS", "4"))  # of each kind; `KILLS=50 make soak PYTEST_ARGS=tests/abuse`

pytestmark = [pytest.mark.timeout(300 + 60 * KILLS), pytest.mark.usefixtures("soak")]


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_at_random_moments_it_ends_with_the_same(tmp_path, victim: str):
    row = Killer(tmp_path, victim, seed=1).kill(KILLS)
    assert row.kills == KILLS and row.same == row.results > 0, row.notes
    assert row.left == []
