"""`pytest --minify`: a test that fails in a backend of torch.compile gets a repro in its report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator
from typing import Any

import pytest

from minifier.workflow.run_folder import RESULTS, next_place

_SECTION = "minify"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--minify` and `--minify-options`."""
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
    """Observe backend calls if `--minify` is given, except in the controller of pytest-xdist."""
    is_controller = bool(getattr(config.option, "dist", "no") != "no") and not hasattr(config, "workerinput")
    if config.getoption("--minify") and not is_controller:
        config.pluginmanager.register(_Minify(config), "minify-tests")


class _Minify:
    def __init__(self, config: pytest.Config) -> None:
        from minifier.embed.session import Session

        self._options = shlex.split(config.getoption("--minify-options"))
        self._folder = config.rootpath / RESULTS
        self._failures: list[tuple[int, BaseException]] = []
        self._session = Session("test", lambda compiler_fn: compiler_fn, self._note)

    def _note(self, number: int, error: BaseException) -> None:
        self._failures.append((number, error))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
        """Add the repro to the report of a failed test."""
        result = yield
        report = result.get_result()
        number = self._cause_of(call.excinfo.value) if call.excinfo is not None else None
        if report.when == "call" and report.failed and number is not None:
            try:
                section = self._reduce(item.nodeid, number)
            except Exception as fault:  # noqa: BLE001 - the test's own failure matters more
                section = f"no repro could be made: {type(fault).__name__}: {fault}"
            report.sections.append((_SECTION, section))
        if report.when == "teardown":
            self._failures.clear()
            self._session.forget()

    def _cause_of(self, error: BaseException) -> int | None:
        """Return the number of the graph whose failure is in the exception's chain, or None.

        A failure that the test had expected is in no chain.
        """
        from minifier.torch_private import backend_error

        chain: list[BaseException] = []
        link: BaseException | None = error
        while link is not None and link not in chain:
            chain.append(link)
            link = link.__cause__ or link.__context__
        for number, failure in self._failures:
            inner = backend_error(failure)
            if any(link is failure or backend_error(link) is inner for link in chain):
                return number
        return None

    def pytest_unconfigure(self) -> None:
        """Stop observing."""
        self._session.end()

    def _reduce(self, name: str, number: int) -> str:
        from minifier.embed.reducing import LOG, start_reducing, wait_for_repro
        from minifier.embed.session import keep

        out = next_place(re.sub(r"\W+", "-", name).strip("-"), self._folder)
        if keep(self._session, number, out) is None:
            return "the failing graph could not be saved; `minify run` on a script may do more"
        repro = wait_for_repro(start_reducing(out, self._options), out)
        if repro is None:
            return f"no repro shows this failure:\n{(out / LOG).read_text(encoding='utf-8')}"
        return f"{repro.read_text(encoding='utf-8')}\n{repro}"
