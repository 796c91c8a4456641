"""What a run takes from the process that it runs in, it gives back: the process may be the user's own."""

import gc

import pytest

from minifier.probe.children import run_children
from minifier.probe.life import Limits
from minifier.process.interpreters import Interpreters
from minifier.process.progress import SILENT
from minifier.settings import Settings
from minifier.workflow.machine import prepared

pytestmark = pytest.mark.timeout(100)


@pytest.mark.parametrize("frozen", [False, True])
def test_the_garbage_collector_is_as_before(frozen, forked, tmp_path):
    def work():
        gc.unfreeze()
        if frozen:
            gc.freeze()
        before = gc.get_freeze_count()  # gets less where a frozen object is deallocated
        with prepared(Settings(verify=1), SILENT, Interpreters()):
            within = gc.get_freeze_count()
            (end,) = run_children([lambda: {"frozen": gc.get_freeze_count()}], Limits(60), tmp_path)
            assert gc.get_freeze_count() <= within
            assert end.result["frozen"] > within
        assert before / 2 <= gc.get_freeze_count() <= before and gc.isenabled()

    forked(work)
