"""Log records of all loggers, and warnings, as backends emit them."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
