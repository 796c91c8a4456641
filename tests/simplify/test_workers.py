"""The passes with several probes at once: what is plainest does not depend on it."""

import shutil

import pytest
from test_plainest import SCRIPT
from vocabulary import Bureau

from minifier.case import Case

pytestmark = pytest.mark.timeout(300)


def parts(case: Case):
    """All of the Case that a pass may change, and what is told of it."""
    return case.graph, case.inputs, case.state, case.backend, case.needs, case.failure


@pytest.mark.parametrize("what", ["more_than_ten", "view_to_heads", "two_inputs", "layer_norm", "half"])
def test_the_answer_is_the_same_for_any_number_of_workers(bureau: Bureau, what):
    bureau.capture(SCRIPT.replace("BACKEND", f"picky_{what}"))
    found = {}
    for workers in (1, 2, 4):
        summary, case = bureau.reduce(workers=workers)
        assert summary.one_minimal and not summary.notes
        found[workers] = parts(case), summary.passes, summary.others
        shutil.rmtree(bureau.folder / "out-1")
    assert found[1] == found[2] == found[4]
