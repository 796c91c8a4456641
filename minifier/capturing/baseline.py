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
from minifier.fx.node_arguments import read, write
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
    return Fresh(here).baseline if own(variables(os.environ)) else here


class Fresh:
    """A new interpreter, without what environment variables of torch's make of it, that tells torch's defaults: it is
    started at once, and waited for when these are wanted. `here` has the values that it cannot tell."""

    def __init__(self, here: Baseline) -> None:
        self._here = here
        modules = sorted({module for module, _ in here.config})
        without = dict(own(variables(os.environ)))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(Path(__file__).parents[2]), *modules],
            env={name: value for name, value in os.environ.items() if name not in without},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @functools.cached_property
    def _told(self) -> dict[str, Any]:
        """Asked in this very folder: some values are made of it. Raises MinifyError if it does not answer."""
        try:
            said, errors = self._process.communicate(timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, errors = self._process.communicate()
        if self._process.returncode != 0:
            raise MinifyError(f"a fresh interpreter that should tell torch's defaults failed:\n{errors}")
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found

    def end(self) -> None:
        """Has it end, whether anybody has asked or not."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    @property
    def baseline(self) -> Baseline:
        """What it is set to."""
        config = {(module, key): write(unpack_arg(value)) for module, key, value in self._told["config"]}
        return Baseline({**self._here.config, **config}, {**self._here.switches, **self._told["switches"]})

    @property
    def path(self) -> tuple[str, ...]:
        """What every interpreter of this environment has on its import path."""
        return tuple(self._told["path"])


_START = (
    "import sys; sys.path[0] = sys.argv[1]; from minifier.capturing.baseline import answer; print(answer(sys.argv[2:]))"
)


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
    return json.dumps({"config": config, "switches": switches_now(), "path": sys.path[1:]})
