"""The private interfaces of torch: each with what is lost in a release of torch that lacks it."""

from __future__ import annotations

import contextlib
import dis
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import torch

from minifier.data.losses import lose
from minifier.data.torch_names import Release, release_of

TORCH: Release = release_of(torch.__version__)

Arguments = dict[str, Any]
Facts = TypeVar("Facts")
Call = Callable[[], Any]
_ABSENT = object()
_OF_OBJECTS = object()  # stands for an attribute that the objects of a class have, not the class


class InterfaceState(Enum):
    """What is known of an interface in this torch."""

    WORKS = "works"
    CHANGED = "changed"
    MISSING = "missing"
    NOT_LOADED = "not loaded"


@dataclass(frozen=True)
class Interface:
    """A private name of torch, as `module:qualified.name`; several where releases differ, the newest first.

    The name may be of a function, a class, a configuration value, or an attribute that a class gives its objects.
    `parameters` are those of the function that this tool reads or replaces.
    """

    places: tuple[str, ...]
    loses: str
    parameters: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The name in this torch; if it has none, the name in the newest known release."""
        return next((place for place in self.places if _find(place, load=False) is not _ABSENT), self.places[0])

    def state(self, *, load: bool = False) -> InterfaceState:
        """Look for the interface. Modules that are not imported yet are imported only with `load`."""
        if not load and not any(place.partition(":")[0] in sys.modules for place in self.places):
            return InterfaceState.NOT_LOADED
        if (found := self._object(load=load)) is _ABSENT:
            return InterfaceState.MISSING
        signature = _signature(found) if self.parameters else None
        known = () if signature is None else signature.parameters
        return InterfaceState.CHANGED if set(self.parameters) - set(known) else InterfaceState.WORKS

    def find(self, *, load: bool = True) -> Any:
        """Return the object, or None if it is missing or changed; the listeners are told.

        Import its module on the first use. Without `load`, return None while the module is not imported.
        """
        if not load and self.state() is InterfaceState.NOT_LOADED:
            return None
        return self._object(load=True) if self.is_here() else None

    def is_here(self) -> bool:
        """Whether this torch has the interface in the known form; if not, the listeners are told.

        Import its module on the first use.
        """
        state = self.state(load=True)
        if state is not InterfaceState.WORKS:
            self.tell_loss(f"{self.place} is {state.value}")
        return state is InterfaceState.WORKS

    def _object(self, *, load: bool) -> Any:
        return next((found for place in self.places if (found := _find(place, load=load)) is not _ABSENT), _ABSENT)

    def tell_loss(self, why: str) -> None:
        """Tell the listeners, once for each interface, that it cannot be used."""
        lose(self.places, f"torch {torch.__version__}: {why}; lost: {self.loses}")

    def assign(self, value: Any) -> None:
        """Set the name in its module or class. Without it nothing is set, which the listeners are told."""
        if self.is_here():
            setattr(_owner(self.place), _last(self.place), value)

    def patched(self, value: Any) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which a configuration value is set; without that value, a context without effect."""
        if not self.is_here():
            return contextlib.nullcontext()
        patch: contextlib.AbstractContextManager[Any] = _owner(self.place).patch(_last(self.place), value)
        return patch

    def read(self, reading: Callable[[], Facts], otherwise: Any = None) -> Facts | Any:
        """Return `reading()`, which reads objects of torch; `otherwise` if these lack what is read.

        In the user's script only `reading` touches torch's objects: its errors are losses, not the script's. A
        backend's own code must not run in it.
        """
        try:
            return reading()
        except (AttributeError, TypeError, KeyError) as error:
            self.tell_loss(f"{self.place} cannot be read ({type(error).__name__}: {error})")
            return otherwise

    def of(self, thing: Any) -> Any:
        """Return the attribute of this name of an object; None if it has none, which the listeners are told."""
        for name in map(_last, self.places):
            if hasattr(thing, name):
                return getattr(thing, name)
        self.tell_loss(f"{self.place} is missing")
        return None

    def replace(self, read: Callable[[Arguments], Facts], around: Callable[[Facts, Call], Any]) -> Callable[[], None]:
        """Call `around(read(arguments), go_on)` in the place of this function; return a function that ends this.

        `arguments` has the call's arguments by name; `go_on()` calls the original with them as they are then. Without
        the function nothing is replaced. A call without the needed parameters, or with arguments that `read` does not
        understand, goes to the original, so that torch never sees an error of this tool. The end leaves a later
        replacement by the script in place.
        """
        found, place = self._object(load=True), self.place
        original: Callable[..., Any] = getattr(found, "__func__", found)
        signature = _signature(original)
        if signature is None:
            self.tell_loss(f"{place} {'is missing' if found is _ABSENT else 'has no signature'}")
            return lambda: None
        owner, name = _owner(place), _last(place)
        static = inspect.getattr_static(owner, name)
        has_ended = False

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            call = None
            if not has_ended:
                with contextlib.suppress(TypeError):
                    call = signature.bind(*args, **kwargs)
            if call is None:
                return original(*args, **kwargs)  # which raises if the arguments do not fit
            call.apply_defaults()
            if missing := [name for name in self.parameters if name not in call.arguments]:
                self.tell_loss(f"{place} has no parameter {', '.join(missing)}")
                return original(*args, **kwargs)
            facts = self.read(lambda: read(call.arguments), _ABSENT)
            if facts is _ABSENT:
                return original(*args, **kwargs)
            return around(facts, lambda: original(*call.args, **call.kwargs))

        is_bound_otherwise = isinstance(static, (staticmethod, classmethod))
        installed = type(static)(replacement) if is_bound_otherwise else replacement
        setattr(owner, name, installed)

        def end() -> None:
            nonlocal has_ended
            has_ended = True
            if inspect.getattr_static(owner, name, None) is installed:
                setattr(owner, name, static)

        return end


def ending_all(*ends: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls all of these, in their order."""

    def end() -> None:
        for each in ends:
            each()

    return end


def _signature(function: Any) -> inspect.Signature | None:
    """Return the signature of a function; None if it has none, as some built-in functions."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _last(place: str) -> str:
    return place.rpartition(".")[2].rpartition(":")[2]


def _owner(place: str) -> Any:
    module, _, name = place.partition(":")
    owner: Any = sys.modules.get(module)
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part, None)
    return owner


def _find(place: str, *, load: bool) -> Any:
    """Return the object of this name, or `_ABSENT`. A module that cannot be imported has no names."""
    module = place.partition(":")[0]
    try:
        if load and module not in sys.modules:
            importlib.import_module(module)
        owner, name = _owner(place), _last(place)
        found = _ABSENT if owner is None else getattr(owner, name, _ABSENT)
    except Exception:  # noqa: BLE001 - a module of torch that lacks what it needs itself
        return _ABSENT
    return _OF_OBJECTS if found is _ABSENT and isinstance(owner, type) and _is_set_in(owner, name) else found


def _is_set_in(kind: type, name: str) -> bool:
    members = (member for each in kind.__mro__ for member in vars(each).values() if inspect.isfunction(member))
    codes = (inspect.unwrap(member).__code__ for member in members)
    steps = (step for code in codes if name in code.co_names for step in dis.get_instructions(code))
    return any((step.opname, step.argval) == ("STORE_ATTR", name) for step in steps)
