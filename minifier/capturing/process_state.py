"""The process's state during a backend call, and the default state that it is compared with."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.object_source import option
from minifier.data.case import State
from minifier.data.case.literals import SCRIPT
from minifier.data.case.serial import pack_arg, unpack_arg
from minifier.data.case.switches import (
    AUTOCAST_CACHE,
    DEFAULT_DEVICE,
    Values,
    changed_switches,
    implied_config,
    may_be_set,
    own,
    read_switches,
    variables,
)
from minifier.data.fields import text
from minifier.errors import CannotSave, MinifyError
from minifier.torch_side.fx.arguments import read, short, write
from minifier.torch_side.torch_private import modes

Switches = tuple[tuple[str, Any], ...]


def _switches(baseline: Baseline) -> Switches:
    switches = changed_switches(switches_now(), baseline.switches)
    if (device := modes.default_device()) is not None:
        switches += ((DEFAULT_DEVICE, device),)
    if not torch.is_autocast_cache_enabled():
        switches += ((AUTOCAST_CACHE, False),)
    return switches


def _changed_config(baseline: Baseline, switches: Switches) -> Iterator[tuple[str, str, Any]]:
    implied = implied_config(switches)
    for (module, key), value in modes.config_values().items():
        entry = module, key
        # The baseline lacks the modules that the script loaded; these know their own defaults.
        same = baseline.config[entry] == value if entry in baseline.config else modes.is_default_config(module, key)
        if not same and not (entry in implied and implied[entry] == value):
            yield module, key, value


def _environment(baseline: Baseline) -> tuple[tuple[str, str], ...]:
    """Return the variables that torch and its compilers read, and the variables set by the script.

    Probes have another current folder: a value that is the relative path of a file becomes absolute, whoever set it.
    """
    own = {}
    for name, value in os.environ.items():
        absolute = os.path.abspath(value) if _is_relative_file(value) else value
        if baseline.environment.get(name) != absolute and may_be_set(name) and _is_text(name + value):
            own[name] = absolute
    return tuple(sorted({**own, **dict(variables(os.environ))}.items()))


def _is_relative_file(value: str) -> bool:
    return not os.path.isabs(value) and bool({".", os.sep}.intersection(value)) and os.path.isfile(value)


def _is_text(variable: str) -> bool:
    """Whether a Case can have the name and the value: bytes that are no text cannot be encoded."""
    try:
        text(variable)
    except ValueError:
        return False
    return True


def current_state(baseline: Baseline) -> State:
    """Return the state during a compilation.

    Dynamo disables some modes while it compiles; the state has their values for the compiled code. Configuration and
    switches are included only where they differ from `baseline`.
    """
    switches = _switches(baseline)
    devices = dict.fromkeys(("cpu", "mps", *modes.device_kinds()))
    config = []
    skipped = [f"{kind}, a torch function mode that is on" for kind in modes.other_function_modes()]
    for module, key, value in _changed_config(baseline, switches):
        try:
            if module == SCRIPT:
                raise CannotSave("it is a configuration of the failing script itself")
            config.append((module, key, option(value)))
        except CannotSave as error:
            skipped.append(f"{module}.{key}: {error}")
    return State(
        grad=torch.is_grad_enabled(),
        inference=modes.inference_mode_outside(),
        autocast=tuple((d, short(torch.get_autocast_dtype(d))) for d in devices if torch.is_autocast_enabled(d)),
        default_dtype=short(torch.get_default_dtype()),
        config=tuple(config),
        switches=switches,
        environment=_environment(baseline),
        skipped=tuple(skipped),
    )


def at_the_call(state: State, baseline: Baseline, inference: bool) -> State:
    """Return the state in which a call of a compiled function failed; `inference` is inference mode before the call.

    `state` is that of the compilation. Grad mode and autocast are the same in the call, as Dynamo's guards check them;
    after the call they may not be, as the graph itself may change them. Guards check neither inference mode nor the
    switches, so these two are read now.
    """
    return replace(state, inference=inference, switches=_switches(baseline))


Config = dict[tuple[str, str], Any]
_IMPORT_TIMEOUT_SECONDS = 120.0  # for importing torch
# This process has torch's defaults for these variables and this folder: it imports torch with this module, or has it.
_VARIABLES, _FOLDER = variables(os.environ), os.getcwd()


@dataclass(frozen=True, slots=True)
class Baseline:
    """Configuration by (module, key), switches by name, and the import path of any interpreter of this environment.

    `environment` has the variables of this process before the script changes them.
    """

    config: Config = field(default_factory=dict)
    switches: Values = field(default_factory=dict)
    path: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def switches_now() -> Values:
    """Return torch's global switches in this process."""
    names = {"torch": torch}
    return read_switches(lambda expression: eval(expression, names))


def baseline_here() -> Baseline:
    """Return this process's present values; torch has already changed some defaults by itself."""
    return Baseline(modes.config_values(), switches_now())


def is_tuned() -> bool:
    """Whether torch's environment variables are set, or were set as this process began."""
    return bool(own(_VARIABLES) or own(variables(os.environ)))


def baseline_of_a_repro() -> Baseline:
    """Return the baseline of an interpreter that runs a repro: without torch's environment variables.

    If this process has, or had, other variables, a fresh interpreter reports its values. Raises MinifyError if that
    interpreter fails.
    """
    present = variables(os.environ)
    if is_tuned() or present != _VARIABLES:
        baseline = reported_baseline(tuple(pair for pair in present if pair not in own(present)))
    else:
        baseline = _baseline_as_begun()
    return replace(baseline, environment=dict(os.environ))


_baseline_as_begun = functools.cache(baseline_here)  # the values of this process before the first script


@functools.lru_cache(maxsize=2)  # of scripts, and of recordings
def reported_baseline(_libraries: tuple[tuple[str, str], ...]) -> Baseline:
    """Return the values of a fresh interpreter; started once for all steps with these variables."""
    return Fresh(baseline_here()).baseline


class Fresh:
    """A fresh interpreter, without torch's environment variables, that reports torch's defaults.

    The interpreter starts at once; reading a default waits for its report. `here` supplies the values that cannot be
    serialised.
    """

    def __init__(self, here: Baseline) -> None:
        self._here = here
        modules = sorted({module for module, _ in here.config})
        left_out = {"PYTHONSAFEPATH", *dict(own(variables(os.environ)))}
        # Some values depend on the folder. Popen and not Child: the user's process may ignore how its children end.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(Path(__file__).parents[2]), *modules],
            env={name: value for name, value in os.environ.items() if name not in left_out},
            cwd=_FOLDER if os.path.isdir(_FOLDER) else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @functools.cached_property
    def _answer(self) -> dict[str, Any]:
        """The interpreter's report. Raises MinifyError if the interpreter fails."""
        try:
            output, errors = self._process.communicate(timeout=_IMPORT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, errors = self._process.communicate()[0], f"it had not ended after {_IMPORT_TIMEOUT_SECONDS:.0f} s"
        if self._process.returncode != 0:
            raise MinifyError(f"a fresh interpreter that should tell torch's defaults failed:\n{errors}")
        report: dict[str, Any] = json.loads(output.splitlines()[-1])
        return report

    def end(self) -> None:
        """Kill the interpreter if still running."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    @property
    def baseline(self) -> Baseline:
        """The interpreter's defaults and import path."""
        config = {(module, key): write(unpack_arg(value)) for module, key, value in self._answer["config"]}
        switches = {**self._here.switches, **self._answer["switches"]}
        path = tuple(self._answer["path"])
        return replace(self._here, config={**self._here.config, **config}, switches=switches, path=path)


_START = (
    "import sys; sys.path[0] = sys.argv[1]; "
    "from minifier.capturing.process_state import answer; print(answer(sys.argv[2:]))"
)


def answer(modules: Sequence[str]) -> str:
    """Return the configuration of these modules, the switches and the import path of this process, as JSON.

    Values that cannot be serialised are left out.
    """
    for module in modules:
        importlib.import_module(module)
    config = []
    for (module, key), value in modes.config_values().items():
        try:
            config.append([module, key, pack_arg(read(value))])
        except CannotSave:
            continue  # the parent process uses its own value
    return json.dumps({"config": config, "switches": switches_now(), "path": sys.path[1:]})
