"""`pytest --minify`: a test that fails in a backend of torch.compile gets a repro in its report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_SECTION = "minify"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--minify` and `--minify-options`."""
    group = parser.getgroup("minify")
    group.addoption(
        "--minify",
        action="store_true",
        help="reduce the backend call of torch.compile in which a test fails; the repro is in the test's report",
    )
    group.addoption(
        "--minify-options",
        default="",
        metavar="OPTIONS",
        help="options for the reduction, as `minify reduce` has them: --minify-options='--budget 60'",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Observes nothing unless it is asked to."""
    if config.getoption("--minify"):
        config.pluginmanager.register(_Minify(config), "minify-tests")


class _Minify:
    def __init__(self, config: pytest.Config) -> None:
        from minifier.inplace.session import Session

        self._options = shlex.split(config.getoption("--minify-options"))
        self._folder = config.rootpath / "minify-out"
        self._failed: list[int] = []
        self._session = Session("test", lambda compiler_fn: compiler_fn, self._note)

    def _note(self, number: int, _error: BaseException) -> None:
        self._failed.append(number)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
        """Adds the repro to the report of a test that failed."""
        result = yield
        report = result.get_result()
        if report.when == "call" and report.failed and self._failed:
            report.sections.append((_SECTION, self._reduced(item.nodeid, self._failed[0])))
        if report.when == "teardown":
            self._failed.clear()

    def pytest_unconfigure(self) -> None:
        """Observes no longer."""
        self._session.end()

    def _reduced(self, name: str, number: int) -> str:
        from minifier.inplace.reducing import LOG, ended, start_reducing
        from minifier.inplace.session import keep

        out = _free(self._folder, re.sub(r"\W+", "-", name).strip("-"))
        if keep(self._session, number, out) is None:
            return "the failing graph could not be written down; `minify run` on a script may do more"
        repro = ended(start_reducing(out, self._options), out)
        if repro is None:
            return f"no repro shows this failure:\n{(out / LOG).read_text(encoding='utf-8')}"
        return f"{repro.read_text(encoding='utf-8')}\n{repro}"


def _free(folder: Path, name: str) -> Path:
    path, number = folder / name, 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}"
    return path
