"""Hide an attribute of torch's objects from the tool, as if a release of torch had renamed it."""

import importlib
import inspect
import sys


class Hidden:
    """An attribute of torch's objects that this tool cannot read, as if it had another name for torch."""

    def __init__(self, name, before):
        self.name, self.before = name, before

    def __get__(self, thing, owner):
        if thing is None or sys._getframe(1).f_globals["__name__"].startswith("minifier."):
            raise AttributeError(f"no attribute {self.name!r}")
        return vars(thing)[self.name] if self.name in vars(thing) else self.before.__get__(thing, owner)

    def __set__(self, thing, value):
        vars(thing)[self.name] = value


def hide(place):
    """Hide the attribute `module:Class.name`."""
    module, _, path = place.partition(":")
    kind, name = path.split(".")
    owner = getattr(importlib.import_module(module), kind)
    setattr(owner, name, Hidden(name, inspect.getattr_static(owner, name, None)))
