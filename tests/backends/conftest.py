"""What the tests of the reference backends share: a clean Dynamo, and scripts in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from warm_command import warm_python

RunPython = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(autouse=True)
def clean_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def run_python(tmp_path, processes) -> RunPython:
    """Runs `python ARGS...` in an empty folder, on one thread so as not to crowd parallel tests; unless it is to be
    `fresh`, in a fork that has torch already."""

    def run(
        *args: str | Path, timeout: float = 60, path: Path | None = None, fresh: bool = False
    ) -> subprocess.CompletedProcess:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": ""}
        if path is not None:
            environment["PYTHONPATH"] = str(path)
        if not fresh:
            return warm_python(*args, folder=tmp_path, environment=environment, timeout=timeout)
        return subprocess.run(
            [sys.executable, *map(str, args)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
