"""Configuration modules, torch's and third parties'."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from typing import Any

from torch.utils._config_module import ConfigModule


def config_values() -> dict[tuple[str, str], Any]:
    """Every value of every configuration module loaded, torch's and third parties'."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are read
        for name, module in sorted(sys.modules.items()):
            for key in module._config if isinstance(module, ConfigModule) else ():
                with contextlib.suppress(AttributeError):  # an alias of a module that is not there
                    value = getattr(module, key)
                    found[name, key] = value.copy() if isinstance(value, (dict, list, set)) else value
    return found


def is_default_config(module: str, key: str) -> bool:
    """Whether a configuration value is what its module set it to when it was loaded."""
    return bool(sys.modules[module]._is_default(key))


def set_config(module: str, key: str, value: Any) -> None:
    """Sets one configuration value; raises ImportError or AttributeError where this torch has none such."""
    setattr(importlib.import_module(module), key, value)
