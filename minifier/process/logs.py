"""What backends say while they work: log records of any logger, and warnings."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log record or a warning (whose logger is then its category): `level` as `logging` numbers it."""

    logger: str
    level: int
    message: str

    @property
    def line(self) -> str:
        """As `--match-log` looks at it: `WARNING acme.lowering: falling back to eager`."""
        return f"{logging.getLevelName(self.level)} {self.logger}: {self.message}"


Listener = Callable[[LogLine], None]


def _told(record: logging.LogRecord, tell: Listener) -> None:
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - a record whose arguments do not fit; logging itself tells the user so
        message = str(record.msg)
    tell(LogLine(record.name, record.levelno, message))


@contextlib.contextmanager
def overheard(tell: Listener, level: int = logging.WARNING) -> Iterator[None]:
    """Within this, `tell` hears every log record of at least `level` that the loggers let through, whether it is
    propagated or not, and every warning that the filters let through. All go on as they would."""
    handle, show = logging.Logger.handle, warnings._showwarnmsg  # type: ignore[attr-defined]

    def heard_handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= level and record.name != "py.warnings":  # a warning that was heard already
            _told(record, tell)
        handle(self, record)

    def heard_show(message: Any) -> None:
        tell(LogLine(message.category.__name__, logging.WARNING, str(message.message)))
        show(message)

    logging.Logger.handle = heard_handle  # type: ignore[method-assign]
    warnings._showwarnmsg = heard_show  # type: ignore[attr-defined]
    try:
        yield
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]
        warnings._showwarnmsg = show  # type: ignore[attr-defined]


def let_through(line: str) -> None:
    """Has the logger of a line that was heard let lines of its level through, whatever level the script had set for
    which logger."""
    level, _, rest = line.partition(" ")
    number = logging.getLevelName(level)
    logger = logging.getLogger(rest.partition(":")[0])
    if isinstance(number, int) and not logger.isEnabledFor(number):
        logger.setLevel(number)
