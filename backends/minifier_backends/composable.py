"""The composable backend: one backend after the other until one can, and eager when none can.

`first_available` is found by torch through its entry point.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.exc import RestartAnalysis, SkipFrame

from minifier_backends.graphs import fresh_copy
from minifier_backends.settings import OptionError

log = logging.getLogger(__name__)

Compiled = Callable[..., Any]
BackendReference = str | Callable[..., Any]


class FallbackError(RuntimeError):
    """A backend could not compile the graph, and falling back was not allowed."""


class FirstOf:
    """What `first_of` returns: a backend, equal to any other of the same parts."""

    def __init__(self, backends: tuple[BackendReference, ...], strict: bool) -> None:
        self.backends = backends
        self.strict = strict
        # Dynamo shows this name, and torch registers a backend under it unless told another.
        self.__name__ = f"first_of({', '.join(map(_name, backends))})"

    def __call__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        options: Mapping[str, object] | None = None,
    ) -> Compiled:
        """Compiles with the first backend that can; option: `strict`, as of `first_of`."""
        strict = self._strict(options)
        for backend in self.backends:
            try:
                # A copy each, since a backend may edit the graph and fail halfway.
                compiled: Compiled = lookup_backend(backend)(fresh_copy(gm), list(example_inputs))
            except (RestartAnalysis, SkipFrame):
                raise  # Dynamo's own control flow, which is no failure.
            except Exception as error:
                reason = f"{_name(backend)} cannot compile this graph: {type(error).__name__}: {error}"
                if strict:
                    raise FallbackError(f"{self.__name__}, strict: {reason}") from error
                log.warning("%s: %s", self.__name__, reason)
            else:
                return compiled
        log.warning("%s: no backend is left, so the graph runs eagerly", self.__name__)
        return gm.forward

    def _strict(self, options: Mapping[str, object] | None) -> bool:
        given = dict(options or {})
        strict = given.pop("strict", self.strict)
        if given:
            raise OptionError(f"{self.__name__} has no option {next(iter(given))!r}; it takes strict")
        if not isinstance(strict, bool):
            raise OptionError(f"{self.__name__}: strict must be of type bool, not {strict!r}")
        return strict

    def __repr__(self) -> str:
        """The call that makes it; a function in it is written as one would import it."""
        parts = [repr(backend) if isinstance(backend, str) else _path(backend) for backend in self.backends]
        return f"first_of({', '.join([*parts, f'strict={self.strict}'])})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FirstOf):
            return NotImplemented
        return (self.backends, self.strict) == (other.backends, other.strict)

    def __hash__(self) -> int:
        return hash((self.backends, self.strict))


def first_of(*backends: BackendReference, strict: bool = False) -> FirstOf:
    """A backend that tries others in this order, and runs the graph eagerly when none can compile it.

    `backends` are registered names or backends themselves; a name is looked up only when its turn comes.
    Every fallback is logged as a warning with its reason. With `strict=True` the first one is a
    FallbackError instead. A backend that compiles, and fails when it runs, has had its turn: the error is
    the caller's.

        torch.compile(model, backend=first_of("tensorrt", "inductor"))
    """
    for backend in backends:
        if not isinstance(backend, str) and not callable(backend):
            raise TypeError(f"first_of takes names and backends, not {backend!r}")
    return FirstOf(backends, strict)


def _name(backend: BackendReference) -> str:
    return backend if isinstance(backend, str) else str(getattr(backend, "__name__", repr(backend)))


def _path(backend: Callable[..., Any]) -> str:
    if hasattr(backend, "__qualname__"):
        return f"{backend.__module__}.{backend.__qualname__}"
    return repr(backend)


first_available = first_of("tensorrt", "inductor")
