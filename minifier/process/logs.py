"""What a library logs, warns of, and catches."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log record, or a warning with its category as the logger. `level` is a number of `logging`."""

    logger: str
    level: int
    message: str

    @property
    def line(self) -> str:
        """The text that `--match-log` searches: `WARNING acme.lowering: falling back to eager`."""
        return f"{logging.getLevelName(self.level)} {self.logger}: {self.message}"


Listener = Callable[[LogLine], None]


def line_of(record: logging.LogRecord) -> LogLine:
    """Return the line of a record."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - a record whose arguments do not fit; logging itself tells the user so
        message = str(record.msg)
    return LogLine(record.name, record.levelno, message)


@contextlib.contextmanager
def in_place_of(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> Iterator[None]:
    """Have `make(original)` called within the block in the place of a function, an attribute of `owner`.

    A function that the script puts around it meanwhile stays, and calls the original from then on.
    """
    original = getattr(owner, name)
    replacement, is_ours = make(original), True

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return (replacement if is_ours else original)(*args, **kwargs)

    setattr(owner, name, function)
    try:
        yield
    finally:
        is_ours = False
        if getattr(owner, name) is function:
            setattr(owner, name, original)


@contextlib.contextmanager
def overheard(tell: Listener, level: int = logging.WARNING) -> Iterator[None]:
    """Call `tell` with every log record of at least `level` that passes its logger, and every warning that passes the
    filters.

    Records need not be propagated. All reach their handlers as before.
    """

    def heard_handle(handle: Any) -> Callable[..., Any]:
        def heard(logger: logging.Logger, record: logging.LogRecord) -> None:
            if record.levelno >= level and record.name != "py.warnings":  # a warning, which heard_show passes on
                tell(line_of(record))
            handle(logger, record)

        return heard

    def heard_show(show: Any) -> Callable[..., Any]:
        def heard(message: Any) -> None:
            tell(LogLine(message.category.__name__, logging.WARNING, str(message.message)))
            show(message)

        return heard

    with in_place_of(logging.Logger, "handle", heard_handle), in_place_of(warnings, "_showwarnmsg", heard_show):
        yield


def let_through(line: str) -> None:
    """Lower the level of this line's logger, so that lines of its level pass."""
    level, _, rest = line.partition(" ")
    number = logging.getLevelName(level)
    logger = logging.getLogger(rest.partition(":")[0])
    if isinstance(number, int) and not logger.isEnabledFor(number):
        logger.setLevel(number)


_CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit)
_ATTRIBUTE_HOOKS = ("__getattr__", "__getattribute__")  # their errors tell hasattr that there is no attribute
_MAX_LINES = 20
_MAX_CHARACTERS_LOGGED = 120
_MAX_CHARACTERS_CAUGHT = 400  # native code often says its reason behind the places that the exception came through


def _one_line(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]} ..."


def _outside_logging(frame: FrameType) -> FrameType:
    """Return the frame, or the frame that has called Python's logging."""
    while frame.f_globals.get("__name__") == "logging" and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _is_in(module: object, packages: Collection[str]) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in packages


class CallWatch:
    """Context of a library call in this thread. `packages` are the library's top-level modules.

    caught: the exceptions that the library's functions caught, each as a line `type: message`.
    entered: whether the function was called whose code object `entry()` returns.
    forwards: the objects whose generated method `forward` was called, each with whether the library was handling an
    exception that it had caught.
    logged: the library's records that its loggers suppress, each as a line `LEVEL logger: message`. A library that asks
    whether a logger is enabled hears a yes only while it handles an exception: elsewhere a yes may cost much.

    Watches nothing while another trace function is set, for example a debugger's.
    """

    def __init__(self, packages: Collection[str], entry: Callable[[], CodeType | None]) -> None:
        self._packages, self._entry = frozenset(packages), entry
        # By the exception's id: its text, and whether its outermost frame is the library's.
        self._outermost: dict[int, tuple[str, bool]] = {}
        self._frames: list[FrameType] = []
        self._watches = False
        self.entered = False
        self.forwards: list[tuple[object, bool]] = []
        self.logged: list[str] = []
        self._lines: list[tuple[str, bool]] = []  # all lines, as they are; whether an exception was being handled
        self._handled: BaseException | None = None  # by a caller
        self._contexts = contextlib.ExitStack()

    @property
    def caught(self) -> list[str]:
        """The exceptions that the library's functions caught, in order, each text once."""
        return list(dict.fromkeys(text for text, is_own in self._outermost.values() if is_own))

    @property
    def first_line(self) -> str:
        """The first line that was logged, or warned of, while an exception was handled.

        Without a line from a handler, the first line that the library logged; "" without any.
        """
        lines = sorted(self._lines, key=lambda line: not line[1])
        return lines[0][0] if lines else ""

    def __enter__(self) -> CallWatch:
        self._watches = sys.gettrace() is None
        if self._watches:
            self._handled = sys.exc_info()[1]
            self._contexts.enter_context(overheard(self._hear, 0))
            self._contexts.enter_context(self._hearing_suppressed_records())
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._watches:
            return
        sys.settrace(None)
        self._contexts.close()
        for frame in self._frames:
            frame.f_trace = None
        self._frames.clear()

    @contextlib.contextmanager
    def _hearing_suppressed_records(self) -> Iterator[None]:
        is_enabled = logging.Logger.isEnabledFor

        def hearing_enabled(_: Any) -> Callable[..., bool]:
            def enabled(logger: logging.Logger, level: int) -> bool:
                if is_enabled(logger, level):
                    return True
                asking = sys._getframe(2)  # beyond the function that stands in the place of logging's
                caller = _outside_logging(asking)
                is_heard = caller is not asking or self._is_handling
                names = (logger.name, caller.f_globals.get("__name__"))
                return is_heard and any(_is_in(name, self._packages) for name in names)

            return enabled

        def hearing_handle(handle: Any) -> Callable[..., None]:
            def heard(logger: logging.Logger, record: logging.LogRecord) -> None:
                if is_enabled(logger, record.levelno):
                    handle(logger, record)
                    return
                line = line_of(record)
                self._hear(line, is_own=True)
                if len(self.logged) < _MAX_LINES:
                    message = _one_line(line.message, _MAX_CHARACTERS_LOGGED)
                    self.logged.append(f"{record.levelname} {logger.name}: {message}")

            return heard

        enabled, handled = (logging.Logger, "isEnabledFor"), (logging.Logger, "handle")
        with in_place_of(*enabled, hearing_enabled), in_place_of(*handled, hearing_handle):
            yield

    @property
    def _is_handling(self) -> bool:
        """Whether an exception is handled that the caller of the library did not handle already."""
        return sys.exc_info()[1] is not self._handled

    def _hear(self, said: LogLine, is_own: bool = False) -> None:
        is_handling = self._is_handling
        if _is_in(said.logger, self._packages) or (is_handling and not _is_in(said.logger, {"torch"})) or is_own:
            self._lines.append((said.line, is_handling))

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Callable[..., Any] | None:
        if event != "call":
            return None
        if frame.f_code is self._entry():
            self.entered = True
        if frame.f_code.co_name == "forward" and frame.f_code.co_filename.startswith("<"):
            _, is_handling = self._outermost.get(id(sys.exc_info()[1]), ("", False))
            self.forwards.append((frame.f_locals.get("self"), is_handling))
        if not _is_in(frame.f_globals.get("__name__"), self._packages):
            return None
        frame.f_trace_lines = False
        return self._trace_exceptions

    def _trace_exceptions(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "exception":
            kind, error, _ = argument
            if not (issubclass(kind, _CONTROL_FLOW) or frame.f_code.co_name in _ATTRIBUTE_HOOKS):
                line = _one_line(str(error), _MAX_CHARACTERS_CAUGHT)
                is_own = _is_in(frame.f_globals.get("__name__"), self._packages)
                self._outermost[id(error)] = f"{kind.__name__}: {line}", is_own
                self._follow(frame.f_back)
        return self._trace_exceptions

    def _follow(self, caller: FrameType | None) -> None:
        """See whether the exception reaches the caller."""
        if caller is not None and caller.f_trace is None:
            caller.f_trace, caller.f_trace_lines = self._trace_exceptions, False
            self._frames.append(caller)
