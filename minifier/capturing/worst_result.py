"""The worst of a graph's wrong results: a later call's may take the place of an earlier call's."""

from __future__ import annotations

import shutil
from pathlib import Path

from minifier.case.store import CASE, GRAPH
from minifier.case.stored import TENSORS
from minifier.failure import Failure
from minifier.failure.from_comparison import rank_of

_LATER = "later"


class WorstResult:
    """The worst wrong result of a graph. Its Case is in `home`; Cases of later calls are written to `folder`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.failure: Failure | None = None

    @property
    def folder(self) -> Path:
        """The folder for the Case of the next call."""
        return self.home if self.failure is None else self.home / _LATER

    @property
    def may_be_worse(self) -> bool:
        """Whether a later result can be worse than a wrong result. False without one."""
        return self.failure is not None and rank_of(self.failure) > 0

    def replaces(self, failure: Failure) -> bool:
        """Note a wrong result whose Case is in `folder`, if it is worse; return whether there was another before.

        The Case then takes the other's place."""
        before, self.failure = self.failure, failure
        if before is None:
            return False
        for name in (GRAPH, CASE, TENSORS):
            (self.home / name).unlink(missing_ok=True)
            if (self.folder / name).exists():
                (self.folder / name).replace(self.home / name)
        return True

    def is_worse(self, failure: Failure) -> bool:
        """Whether a failure is worse than the worst so far."""
        return self.failure is None or rank_of(failure) < rank_of(self.failure)

    def clear(self) -> None:
        """Remove the Case of a later call that was not worse."""
        shutil.rmtree(self.home / _LATER, ignore_errors=True)
