"""Environment variables that a backend has for itself: what a fresh interpreter gets, and what goes into a repro."""

import pytest

from minifier.case.variables import may_be_set, may_be_written, ordinary, others

pytestmark = pytest.mark.timeout(200)

SHELL = {"PATH": "/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": "/x", "CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": "/y"}
NEVER = {"TORCH_LOGS": "+all", "PYTHONHASHSEED": "1"}
OTHERS = {"ACME_FUSE": "1", "OMP_NUM_THREADS": "2", "CUDA_LAUNCH_BLOCKING": "1"}


def test_what_a_fresh_interpreter_gets():
    every = {**SHELL, **NEVER, **OTHERS}
    assert ordinary(every) == SHELL
    assert ordinary(every, ["ACME_FUSE", "TORCH_LOGS"]) == {**SHELL, "ACME_FUSE": "1"}
    assert ordinary(every, None) == {**SHELL, **OTHERS}
    assert others(every) == ("ACME_FUSE", "CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS")


def test_what_may_go_into_a_script():
    assert may_be_written("ACME_FUSE", "1,2") and may_be_set("ACME_FUSE")
    assert not may_be_written("ACME_HOME", "/home/me") and not may_be_written("ACME_TOKEN", "abc")
    assert not may_be_written("ACME_FUSE", "x" * 300)
    assert not any(map(may_be_set, ["PATH", "ACME_LOG_LEVEL", "ACME_DIR", "PYTHONHASHSEED", "XDG_DATA"]))


def test_what_the_script_sets_itself_is_part_of_the_state(bureau):
    captured = bureau.capture(
        """
        import os
        import torch
        import oddlib

        os.environ.update(ODDLIB_FUSE="1", ODDLIB_OTHER="2", ODDLIB_CACHE_DIR="3")
        torch.compile(lambda x: torch.tanh(x) + 1, backend="oddlib_switched")(torch.ones(3))
        """
    )
    assert len(captured.failing) == 1
    found = bureau.case().state.environment
    assert [pair for pair in found if "ODDLIB" in pair[0]] == [("ODDLIB_FUSE", "1"), ("ODDLIB_OTHER", "2")]
    _summary, case = bureau.reduce()
    assert case.state.environment == (("ODDLIB_FUSE", "1"),)
