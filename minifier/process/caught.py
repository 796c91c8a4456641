"""Watch a library call: the exceptions that the library catches, and its log lines of any level."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Any

from minifier.process.logs import LogLine, overheard

_CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit)
_ATTRIBUTE_HOOKS = ("__getattr__", "__getattribute__")  # their errors tell hasattr that there is no attribute
_MAX_LINES = 20
_MAX_CHARACTERS = 120


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]} ..."


def _is_in(module: object, packages: Collection[str]) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in packages


class CallWatch:
    """Context of a library call in this thread. `packages` are the library's top-level modules.

    caught: the exceptions that the library's functions caught, each as a line `type: message`.
    entered: whether the function with the code `entry()` was called.
    logged: the library's debug and info records that its loggers suppress, each as a line `LEVEL logger: message`.

    Watches nothing while another trace function is set, for example a debugger's.
    """

    def __init__(self, packages: Collection[str], entry: Callable[[], CodeType | None]) -> None:
        self._packages, self._entry = frozenset(packages), entry
        self._outermost: dict[int, tuple[str, bool]] = {}  # by exception: its text; the library has its outermost frame
        self._frames: list[FrameType] = []
        self._watches = False
        self.entered = False
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
            self._contexts.enter_context(overheard(self._hear, logging.DEBUG))
            self._debug, self._info = logging.Logger.debug, logging.Logger.info
            logging.Logger.debug = self._hearing(self._debug, logging.DEBUG)  # type: ignore[method-assign]
            logging.Logger.info = self._hearing(self._info, logging.INFO)  # type: ignore[method-assign]
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._watches:
            return
        sys.settrace(None)
        logging.Logger.debug, logging.Logger.info = self._debug, self._info  # type: ignore[method-assign]
        self._contexts.close()
        for frame in self._frames:
            frame.f_trace = None
        self._frames.clear()

    def _hearing(self, original: Callable[..., None], level: int) -> Callable[..., None]:
        def log(logger: logging.Logger, message: object, *args: Any, **options: Any) -> None:
            if logger.isEnabledFor(level):
                options["stacklevel"] = options.get("stacklevel", 1) + 1  # without this frame
                original(logger, message, *args, **options)
            elif self._is_own(logger.name, sys._getframe(1)) and len(self.logged) < _MAX_LINES:
                try:
                    text = str(message) % args if args else str(message)
                except (TypeError, ValueError):  # arguments that do not fit
                    text = str(message)
                self._hear(LogLine(logger.name, level, text), is_own=True)
                self.logged.append(f"{logging.getLevelName(level)} {logger.name}: {_one_line(text)}")

        return log

    def _is_own(self, logger: str, caller: FrameType) -> bool:
        """Whether the library logs, judged by the logger's name or by the calling module."""
        return _is_in(logger, self._packages) or _is_in(caller.f_globals.get("__name__"), self._packages)

    def _hear(self, said: LogLine, is_own: bool = False) -> None:
        is_handling = sys.exc_info()[1] is not self._handled
        if _is_in(said.logger, self._packages) or (is_handling and not _is_in(said.logger, {"torch"})) or is_own:
            self._lines.append((said.line, is_handling))

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Callable[..., Any] | None:
        if event != "call":
            return None
        if frame.f_code is self._entry():
            self.entered = True
        if not _is_in(frame.f_globals.get("__name__"), self._packages):
            return None
        frame.f_trace_lines = False
        return self._trace_exceptions

    def _trace_exceptions(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "exception":
            kind, error, _ = argument
            if not (issubclass(kind, _CONTROL_FLOW) or frame.f_code.co_name in _ATTRIBUTE_HOOKS):
                line = _one_line(str(error))
                is_own = _is_in(frame.f_globals.get("__name__"), self._packages)
                self._outermost[id(error)] = f"{kind.__name__}: {line}", is_own
                self._follow(frame.f_back)
        return self._trace_exceptions

    def _follow(self, caller: FrameType | None) -> None:
        """See whether the exception reaches the caller."""
        if caller is not None and caller.f_trace is None:
            caller.f_trace, caller.f_trace_lines = self._trace_exceptions, False
            self._frames.append(caller)
