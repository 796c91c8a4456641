"""What a process is set to before anybody has set anything: what a Case's state is compared with."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from minifier.case.encode import pack_arg, unpack_arg
from minifier.case.switches import Values, read_switches
from minifier.case.variables import own, variables
from minifier.errors import CannotSave, MinifyError
from minifier.fx.arguments import read, write
from minifier.torch_private import config_values

Config = dict[tuple[str, str], Any]
_TIMEOUT = 120.0  # seconds for importing torch


@dataclass(frozen=True, slots=True)
class Baseline:
    """Configuration by (module, key), and switches by name."""

    config: Config = field(default_factory=dict)
    switches: Values = field(default_factory=dict)


def switches_now() -> Values:
    """Torch's global switches in this process."""
    names = {"torch": torch}
    return read_switches(lambda expression: eval(expression, names))


def baseline_here() -> Baseline:
    """This process as it is. It is not all defaults: torch changes some values by itself."""
    return Baseline(config_values(), switches_now())


@functools.cache
def baseline_of_a_repro() -> Baseline:
    """As `baseline_here`, but without what environment variables of torch's make of it, which the
    interpreter that runs a repro does not have: asked of a new interpreter if there are any.

    Raises MinifyError if that interpreter does not answer.
    """
    here = baseline_here()
    if not own(variables(os.environ)):
        return here
    modules = sorted({module for module, _ in here.config})
    found = json.loads(_ask(modules))
    config = {(module, key): write(unpack_arg(value)) for module, key, value in found["config"]}
    return Baseline({**here.config, **config}, {**here.switches, **found["switches"]})


_START = "import sys; sys.path[0] = sys.argv[1]; from minifier.baseline import answer; print(answer(sys.argv[2:]))"


def _ask(modules: Sequence[str]) -> str:
    """In this very folder: some values are made of it."""
    without = dict(own(variables(os.environ)))
    done = subprocess.run(
        [sys.executable, "-c", _START, str(Path(__file__).parent.parent), *modules],
        env={name: value for name, value in os.environ.items() if name not in without},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode != 0:
        raise MinifyError(f"a fresh interpreter that should tell torch's defaults failed:\n{done.stderr}")
    return done.stdout.splitlines()[-1]


def answer(modules: Sequence[str]) -> str:
    """This process's configuration, of these modules, and switches as JSON; values that have no readable
    form are left out."""
    for module in modules:
        importlib.import_module(module)
    config = []
    for (module, key), value in config_values().items():
        try:
            config.append([module, key, pack_arg(read(value))])
        except CannotSave:
            continue  # the asking process goes by its own value
    return json.dumps({"config": config, "switches": switches_now()})
