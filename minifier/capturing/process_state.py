"""The process's state during a backend call: modes, torch's configuration, switches, environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from minifier.capturing.baseline import Baseline, switches_now
from minifier.capturing.object_source import option
from minifier.case import State
from minifier.case.literals import SCRIPT
from minifier.case.switches import AUTOCAST_CACHE, DEFAULT_DEVICE, changed_switches, implied_config
from minifier.case.texts import text
from minifier.case.variables import may_be_set, variables
from minifier.errors import CannotSave
from minifier.fx.node_arguments import short
from minifier.torch_private import (
    config_values,
    default_device,
    device_kinds,
    inference_mode_outside,
    is_default_config,
    other_function_modes,
)

Switches = tuple[tuple[str, Any], ...]


def _autocast() -> tuple[tuple[str, str], ...]:
    devices = dict.fromkeys(("cpu", "mps", *device_kinds()))
    return tuple((d, short(torch.get_autocast_dtype(d))) for d in devices if torch.is_autocast_enabled(d))


def _switches(baseline: Baseline) -> Switches:
    switches = changed_switches(switches_now(), baseline.switches)
    if (device := default_device()) is not None:
        switches += ((DEFAULT_DEVICE, device),)
    if not torch.is_autocast_cache_enabled():
        switches += ((AUTOCAST_CACHE, False),)
    return switches


def _changed_config(baseline: Baseline, switches: Switches) -> Iterator[tuple[str, str, Any]]:
    implied = implied_config(switches)
    for (module, key), value in config_values().items():
        entry = module, key
        # The baseline lacks the modules that the script loaded; these know their own defaults.
        same = baseline.config[entry] == value if entry in baseline.config else is_default_config(module, key)
        if not same and not (entry in implied and implied[entry] == value):
            yield module, key, value


def _environment(baseline: Baseline) -> tuple[tuple[str, str], ...]:
    """Return the variables that torch and its compilers read, and the variables set by the script.

    Probes have another current folder: a value that is the relative path of a file becomes absolute, whoever set it.
    """
    own = {}
    for name, value in os.environ.items():
        absolute = os.path.abspath(value) if _is_relative_file(value) else value
        if baseline.environment.get(name) != absolute and may_be_set(name) and _is_text(value):
            own[name] = absolute
    return tuple(sorted({**own, **dict(variables(os.environ))}.items()))


def _is_relative_file(value: str) -> bool:
    return not os.path.isabs(value) and bool({".", os.sep}.intersection(value)) and os.path.isfile(value)


def _is_text(value: str) -> bool:
    """Whether a Case can have the value: bytes that are no text cannot be encoded."""
    try:
        text(value)
    except ValueError:
        return False
    return True


def current_state(baseline: Baseline) -> State:
    """Return the state during a compilation.

    Dynamo disables some modes while it compiles; the state has their values for the compiled code. Configuration and
    switches are included only where they differ from `baseline`.
    """
    switches = _switches(baseline)
    config = []
    skipped = [f"{kind}, a torch function mode that is on" for kind in other_function_modes()]
    for module, key, value in _changed_config(baseline, switches):
        try:
            if module == SCRIPT:
                raise CannotSave("it is a configuration of the failing script itself")
            config.append((module, key, option(value)))
        except CannotSave as error:
            skipped.append(f"{module}.{key}: {error}")
    return State(
        grad=torch.is_grad_enabled(),
        inference=inference_mode_outside(),
        autocast=_autocast(),
        default_dtype=short(torch.get_default_dtype()),
        config=tuple(config),
        switches=switches,
        environment=_environment(baseline),
        skipped=tuple(skipped),
    )


def at_the_call(state: State, baseline: Baseline, inference: bool) -> State:
    """Return the state of a compiled function's failed call; `inference` is inference mode before the call.

    Only inference mode and the switches, which Dynamo's guards do not check, are read anew. Guards check grad mode and
    autocast, and the failing graph itself may have changed these.
    """
    return replace(state, inference=inference, switches=_switches(baseline))
