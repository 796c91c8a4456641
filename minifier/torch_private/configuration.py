"""Configuration modules, torch's and third parties'."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from torch.utils._config_module import _UNSET_SENTINEL, ConfigModule


def _modules() -> Iterator[tuple[str, ConfigModule]]:
    """Every configuration module loaded, once, by the name under which it can be imported."""
    seen: set[int] = set()
    loaded = [(name, module) for name, module in sys.modules.items() if isinstance(module, ConfigModule)]
    for name, module in sorted(loaded, key=lambda pair: (pair[0] != pair[1].__name__, pair[0])):
        if id(module) not in seen:
            seen.add(id(module))
            yield name, module


def config_values() -> dict[tuple[str, str], Any]:
    """Every value of every configuration module loaded, torch's and third parties'; aliases left out,
    since what they stand for is there."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are read
        for name, module in sorted(_modules()):
            for key, entry in module._config.items():
                if entry.alias is not None:
                    continue
                with contextlib.suppress(AttributeError):  # one that was deleted, as mock.patch does
                    value = getattr(module, key)
                    found[name, key] = value.copy() if isinstance(value, (dict, list, set)) else value
    return found


def is_default_config(module: str, key: str) -> bool:
    """Whether a configuration value is what its module set it to when it was loaded."""
    return bool(sys.modules[module]._is_default(key))


def set_config(module: str, key: str, value: Any) -> None:
    """Sets one configuration value, even one that an environment variable forces; raises ImportError or
    AttributeError where this torch has none such."""
    found = importlib.import_module(module)
    if isinstance(found, ConfigModule) and key in found._config:
        found._config[key].env_value_force = _UNSET_SENTINEL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deprecated one warns
        setattr(found, key, value)


def has_config(module: str, key: str) -> bool:
    """Whether this torch, or what else is installed, has such a configuration value; imports the module."""
    found = importlib.import_module(module)
    return key in found._config if isinstance(found, ConfigModule) else hasattr(found, key)
