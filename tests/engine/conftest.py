"""Fixtures of the engine's tests: everything runs in the test's own process, which is left as it was."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from fake_prober import BackendProber, FakeProber, Fault, run_here

from minifier.data.case import Case
from minifier.data.case.store import load, save
from minifier.data.settings import Settings
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.reduce_case import ReductionTask, reduce_case
from minifier.reduction.summary import Summary
from minifier.torch_side.fx.tensors import StoredTensors
from minifier.torch_side.torch_private.modes import config_values, set_config


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, in memory where the machine has such folders: a journal waits for the disk at each probe."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def own_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes back what a reduction sets in a process that it takes for its own."""
    scratch = folder / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    path, environment = list(sys.path), dict(os.environ)
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    config = config_values()
    yield
    for place, value in config_values().items():
        if place in config and config[place] != value:
            set_config(*place, config[place])
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)


@pytest.fixture
def make_lab(folder: Path) -> Iterator[Callable[..., tuple[ProbeRunner, FakeProber]]]:
    """`make_lab(case, fault, workers=1, interrupt_at=None, **settings)`: a lab whose probes a fake prober answers."""
    labs: list[ProbeRunner] = []

    def make(
        case: Case, fault: Fault, workers: int = 1, interrupt_at: int | None = None, **settings: object
    ) -> tuple[ProbeRunner, FakeProber]:
        prober = FakeProber(fault, workers, interrupt_at)
        out = folder / f"lab-{len(list(folder.iterdir()))}"
        out.mkdir()
        prepared = PreparedCase(case, StoredTensors(case.tensors))
        lab = ProbeRunner(
            prepared, out, Settings(**settings), workers, make_prober=lambda *_: prober, run_jobs=run_here
        )
        labs.append(lab)
        return lab, prober

    yield make
    assert not any(lab.left_out for lab in labs), [lab.left_out for lab in labs]


class Reduced:
    """What a whole reduction came to."""

    def __init__(self, summary: Summary, folder: Path, prober: FakeProber) -> None:
        self.summary, self.folder, self.prober = summary, folder, prober

    @property
    def case(self) -> Case:
        return load(self.folder / "minimal")

    @property
    def nearest(self) -> Case | None:
        folder = self.folder / "nearest"
        return load(folder) if folder.exists() else None


@pytest.fixture
def reduce(folder: Path) -> Callable[..., Reduced]:
    """`reduce(case, fault, workers=1, ...)`: the whole stage, `fault=None` for the Case's real backend;
    `reduce.probers` has the probers of all calls, `reduce.sizes` the numbers of ops that
    are shown. Without `slips`, no step may end with an error of the tool."""
    made: list[Path] = []
    probers: list[FakeProber] = []
    sizes: list[int | None] = []

    def run(
        case: Case,
        fault: Fault | None,
        workers: int = 1,
        interrupt_at: int | None = None,
        interrupt: type[BaseException] = KeyboardInterrupt,
        out: Path | None = None,
        doubtful: bool = False,
        slips: bool = False,
        **settings: object,
    ) -> Reduced:
        source = folder / f"case-{len(made)}"
        out = out or folder / f"out-{len(made)}"
        made.append(source)
        source.mkdir()
        out.mkdir(exist_ok=True)
        save(case, source)

        def make_prober(prepared: PreparedCase, _scratch: Path) -> FakeProber:
            if fault is None:
                probers.append(BackendProber(workers, interrupt_at, interrupt, prepared=prepared))
            else:
                probers.append(FakeProber(fault, workers, interrupt_at, interrupt))
            return probers[-1]

        summary = reduce_case(
            ReductionTask(load(source), out, Settings(**settings), doubtful=doubtful),  # type: ignore[arg-type]
            lambda progress: sizes.append(progress.size),
            make_prober=make_prober,
            run_jobs=run_here,
        )
        assert slips or interrupt is not KeyboardInterrupt or not summary.errors, summary.errors
        return Reduced(summary, out, probers[-1])

    run.probers, run.sizes = probers, sizes  # type: ignore[attr-defined]
    return run
