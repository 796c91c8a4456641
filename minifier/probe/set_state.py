"""Puts a process into the state of a Case; the process must have no other use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

import torch

from minifier.capturing.baseline import baseline_of_a_repro, is_tuned, switches_now
from minifier.case import State
from minifier.case.switches import SWITCHES, contexts, known, statements
from minifier.case.variables import variables
from minifier.fx.node_arguments import write
from minifier.torch_private import config_values, has_config, set_config


def reset_state() -> None:
    """Undo, as far as possible, the effects of torch's environment variables on this process.
    The process is then configured like the interpreter of the repro, except for the Case's own state."""
    if not is_tuned():
        return
    baseline = baseline_of_a_repro()
    for (module, key), value in config_values().items():
        if (module, key) in baseline.config and baseline.config[module, key] != value:
            set_config(module, key, baseline.config[module, key])
    now = switches_now()
    for switch in SWITCHES:
        if switch.name in baseline.switches and baseline.switches[switch.name] != now.get(switch.name):
            _execute(switch.statement(baseline.switches[switch.name]))
    set_environment(State())


_original: dict[str, str | None] = {}  # values of other variables before a Case set them


def set_environment(state: State) -> None:
    """Set `os.environ` to this Case's variables.
    Compiler variables that the Case lacks are removed; all others are restored."""
    for name, value in _original.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for name, _ in state.environment:
        _original.setdefault(name, os.environ.get(name))
    for name, _ in variables(os.environ):
        if name not in dict(state.environment):
            del os.environ[name]
    os.environ.update(state.environment)


def known_state(state: State) -> State:
    """Return the state without settings that are unavailable here; `skipped` gets a line for each.

    The Case may come from another version of torch, or lack definitions of the script. Definitions must have been
    imported before this call.
    """
    config, skipped = [], []
    for module, key, value in state.config:
        try:
            missing = "" if has_config(module, key) else "there is no such value here"
            write(value)
        except Exception as error:  # noqa: BLE001 - an expression of the script may raise anything
            missing = f"{type(error).__name__}: {error}"
        if missing:
            skipped.append(f"{module}.{key}: {missing}")
        else:
            config.append((module, key, value))
    switches = tuple(pair for pair in state.switches if known(pair[0]))
    skipped += [f"{name}: not known to this version" for name, _ in state.switches if not known(name)]
    return replace(state, config=tuple(config), switches=switches, skipped=(*state.skipped, *skipped))


def _execute(line: str) -> None:
    exec(line, {"torch": torch})


def set_globals(state: State) -> None:
    """Set environment, default dtype, configuration and switches, as a repro does at its top."""
    set_environment(state)
    torch.set_default_dtype(getattr(torch, state.default_dtype))
    for module, key, value in state.config:
        set_config(module, key, write(value))
    for line in statements(state):
        _execute(line)


@contextlib.contextmanager
def in_modes(state: State) -> Iterator[None]:
    """Enter the contexts of the captured call."""
    with contextlib.ExitStack() as stack:
        for text in contexts(state):
            stack.enter_context(eval(text, {"torch": torch}))
        yield


@contextlib.contextmanager
def in_state(state: State) -> Iterator[None]:
    """Set the whole state; only its modes end with the block."""
    set_globals(state)
    with in_modes(state):
        yield
