"""Which rank of a job is reduced by `minifier.wrap`."""

import os
from types import SimpleNamespace

import pytest

from minifier.flow.embed import wrap as module

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def reduced(tmp_path, monkeypatch):
    """A function with which a rank of a job fails, which returns whether its failure is reduced."""
    started, notes = [], []
    monkeypatch.setattr(module, "Session", lambda *_arguments, **_more: SimpleNamespace(end=lambda: None))
    monkeypatch.setattr(module, "keep_or_tell", lambda *known: (known[-1] / "case").mkdir(parents=True) or "minifier:")
    monkeypatch.setattr(module, "tell", lambda _error, note: notes.append(note))
    monkeypatch.setattr(module, "start_reducing", lambda out, _options: started.append(out))

    def fail(rank, launcher, attempt=0):
        environment = {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500", "RANK": str(rank)}
        for name, value in (environment | {"TORCHELASTIC_RESTART_COUNT": str(attempt)}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(os, "getppid", lambda: launcher)
        number = len(started)
        module.Wrapped("eager", "eager", tmp_path / "out", (), wait=False, compare=False).failed(1, LookupError())
        assert ("another rank" in notes[-1]) is (len(started) == number)
        return len(started) > number

    return fail


JOB, NEXT_JOB = os.getpid(), os.getppid()  # two processes that are there


def test_the_first_rank_of_each_job_is_reduced(reduced):
    assert [reduced(rank, JOB) for rank in (1, 0)] == [True, False]
    assert [reduced(rank, NEXT_JOB) for rank in (0, 1)] == [True, False]


def test_a_restarted_job_may_fail_in_another_way(reduced):
    assert [reduced(0, JOB, attempt) for attempt in (0, 1, 1)] == [True, True, False]
