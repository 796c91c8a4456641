"""Configuration modules of torch and of other packages."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from torch.utils._config_module import _UNSET_SENTINEL, ConfigModule

from minifier.interfaces.declared import EVERYTHING, stands_on

stands_on("torch._dynamo.config:_config", loses=EVERYTHING)
for _name in ("ConfigModule._is_default", "_ConfigEntry.alias", "_ConfigEntry.env_value_force"):
    stands_on(f"torch.utils._config_module:{_name}", loses=EVERYTHING)


def _modules() -> Iterator[tuple[str, ConfigModule]]:
    """Yield each loaded configuration module once, with an importable name."""
    seen: set[int] = set()
    loaded = [(name, module) for name, module in sys.modules.items() if isinstance(module, ConfigModule)]
    for name, module in sorted(loaded, key=lambda pair: (pair[0] != pair[1].__name__, pair[0])):
        if id(module) not in seen:
            seen.add(id(module))
            yield name, module


def config_values() -> dict[tuple[str, str], Any]:
    """Return all values of all loaded configuration modules by (module, key), without aliases."""
    values = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are read
        for name, module in sorted(_modules()):
            for key, entry in module._config.items():
                if entry.alias is not None:
                    continue
                with contextlib.suppress(AttributeError):  # deleted, for example by mock.patch
                    value = getattr(module, key)
                    values[name, key] = value.copy() if isinstance(value, (dict, list, set)) else value
    return values


def is_default_config(module: str, key: str) -> bool:
    """Whether a configuration value is its module's default."""
    return bool(sys.modules[module]._is_default(key))


def set_config(module: str, key: str, value: Any) -> None:
    """Set a configuration value, even if an environment variable forces another value.

    Raises ImportError or AttributeError if this torch lacks the module or the value.
    """
    config = importlib.import_module(module)
    if isinstance(config, ConfigModule) and key in config._config:
        config._config[key].env_value_force = _UNSET_SENTINEL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are set
        setattr(config, key, value)


def has_config(module: str, key: str) -> bool:
    """Import the module, and return whether this configuration value exists."""
    config = importlib.import_module(module)
    return key in config._config if isinstance(config, ConfigModule) else hasattr(config, key)


@contextlib.contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Give an environment variable, which torch reads when it needs it, this value in the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
