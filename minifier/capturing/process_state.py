"""What the process is set to at the moment of a backend call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from minifier.capturing.baseline import Baseline, switches_now
from minifier.case import State
from minifier.case.literals import OF_SCRIPT, imported_paths
from minifier.case.switches import AUTOCAST_CACHE, DEFAULT_DEVICE, changed_switches, implied_config
from minifier.case.variables import may_be_set, may_be_written, variables
from minifier.errors import CannotSave
from minifier.fx.node_arguments import read, short
from minifier.torch_private import (
    config_values,
    default_device,
    inference_mode_outside,
    is_default_config,
    other_function_modes,
)

_DEVICES = ("cpu", "cuda", "xpu", "mps")

# The environment that the script begins with: this is imported before it runs.
_FOUND = dict(os.environ)

Switches = tuple[tuple[str, Any], ...]


def _autocast() -> tuple[tuple[str, str], ...]:
    return tuple((d, short(torch.get_autocast_dtype(d))) for d in _DEVICES if torch.is_autocast_enabled(d))


def _switches(baseline: Baseline) -> Switches:
    found = changed_switches(switches_now(), baseline.switches)
    if (device := default_device()) is not None:
        found += ((DEFAULT_DEVICE, device),)
    if not torch.is_autocast_cache_enabled():
        found += ((AUTOCAST_CACHE, False),)
    return found


def _changed_config(baseline: Baseline, switches: Switches) -> Iterator[tuple[str, str, Any]]:
    implied = implied_config(switches)
    for (module, key), value in config_values().items():
        place = module, key
        # A module that the script loaded is not in the baseline; it knows its own defaults.
        same = baseline.config[place] == value if place in baseline.config else is_default_config(module, key)
        if not same and not (place in implied and implied[place] == value):
            yield module, key, value


def _environment() -> tuple[tuple[str, str], ...]:
    """The variables that torch and its compilers read, and those that the script itself has set."""
    own = {
        name: value
        for name, value in os.environ.items()
        if _FOUND.get(name) != value and may_be_set(name) and may_be_written(name, value)
    }
    return tuple(sorted({**own, **dict(variables(os.environ))}.items()))


def current_state(baseline: Baseline) -> State:
    """The state now, in the middle of a compilation: that of the code which is compiled, where Dynamo has
    changed it for the while. Configuration and switches only where they differ from `baseline`."""
    switches = _switches(baseline)
    config = []
    skipped = [f"{kind}, a torch function mode that is on" for kind in other_function_modes()]
    for module, key, value in _changed_config(baseline, switches):
        try:
            if module == "__main__":
                raise CannotSave("it is a configuration of the failing script itself")
            written = read(value)
            own = [path for path in imported_paths(written) if path.startswith(OF_SCRIPT)]
            if own:
                raise CannotSave(f"it is {own[0].removeprefix(OF_SCRIPT)}, which the failing script itself defines")
            config.append((module, key, written))
        except CannotSave as error:
            skipped.append(f"{module}.{key}: {error}")
    return State(
        grad=torch.is_grad_enabled(),
        inference=inference_mode_outside(),
        autocast=_autocast(),
        default_dtype=short(torch.get_default_dtype()),
        config=tuple(config),
        switches=switches,
        environment=_environment(),
        skipped=tuple(skipped),
    )


def at_the_call(state: State, baseline: Baseline, inference: bool) -> State:
    """The state of a compiled function's call that failed: as when it was compiled, but for what Dynamo's
    guards do not look at. (Grad mode and autocast they do; and the graph itself may have changed these
    on its way to the failure.) `inference` is inference mode before the call."""
    return replace(state, inference=inference, switches=_switches(baseline))
