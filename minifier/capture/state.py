"""What the process is set to at the moment of a backend call."""

from __future__ import annotations

from typing import Any

import torch

from minifier.case import State
from minifier.errors import CannotSave
from minifier.fx.arguments import read, short
from minifier.torch_private import config_values, is_default_config

_DEVICES = ("cpu", "cuda", "xpu", "mps")

Config = dict[tuple[str, str], Any]


def _autocast() -> tuple[tuple[str, str], ...]:
    return tuple((d, short(torch.get_autocast_dtype(d))) for d in _DEVICES if torch.is_autocast_enabled(d))


def current_state(baseline: Config) -> State:
    """The state now; configuration only where it differs from `baseline`, the state of a fresh process."""
    config, skipped = [], []
    for (module, key), value in config_values().items():
        # A module that the script loaded is not in the baseline; it knows its own defaults.
        known = (module, key) in baseline
        if baseline[module, key] == value if known else is_default_config(module, key):
            continue
        try:
            config.append((module, key, read(value)))
        except CannotSave as error:
            skipped.append(f"{module}.{key}: {error}")
    return State(
        grad=torch.is_grad_enabled(),
        inference=torch.is_inference_mode_enabled(),
        autocast=_autocast(),
        default_dtype=short(torch.get_default_dtype()),
        config=tuple(config),
        skipped=tuple(skipped),
    )
