"""`pytest --minify`: each distinct failure in a backend of torch.compile gets a repro, once the tests have run."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Generator
from typing import Any

import pytest

from minifier.embed.after_tests import CASE, FAILURE, LOST, WRONG, AfterTests
from minifier.embed.reducing import place_for_test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--minify`, `--minify-options` and `--minify-budget`."""
    group = parser.getgroup("minify")
    group.addoption(
        "--minify",
        action="store_true",
        help="once the tests have run, make a repro of each distinct failure in a backend of torch.compile",
    )
    group.addoption(
        "--minify-options",
        default="",
        metavar="OPTIONS",
        help="options for each reduction, as `minify reduce` has them: --minify-options='--max-probes 100'",
    )
    group.addoption(
        "--minify-budget",
        type=float,
        metavar="SECONDS",
        help="time for all reductions together; each may take an equal part of what is left",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Observe the tests of this process and reduce their failures, if `--minify` is given; not under `minify run`."""
    script = sys.modules.get("minifier.capturing.script")
    if not config.getoption("--minify") or getattr(script, "under_run", False):
        return
    is_worker = hasattr(config, "workerinput")  # of pytest-xdist
    if is_worker or getattr(config.option, "dist", "no") == "no":
        config.pluginmanager.register(_Tests(config), "minify-tests")
    if not is_worker:
        config.pluginmanager.register(AfterTests(config), "minify-after-tests")


class _Tests:
    """Observes the backend calls of tests; what is to be reduced goes into the reports as user properties."""

    def __init__(self, config: pytest.Config) -> None:
        from minifier.errors import UsageError
        from minifier.workflow.machine import import_with_torch

        try:
            session = import_with_torch("minifier.embed.session")
        except UsageError as error:
            raise pytest.UsageError(f"--minify: {error}") from None
        self._root = config.rootpath
        self._failures: list[tuple[int, BaseException]] = []
        self._session = session.Session("test", lambda compiler_fn: compiler_fn, self._note)

    def _note(self, number: int, error: BaseException | None) -> None:
        assert error is not None, "nothing is compared"
        self._failures.append((number, error))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
        """Keep the failing backend call of a failed test."""
        result = yield
        report = result.get_result()
        if report.when == "call" and report.failed and call.excinfo is not None:
            try:
                report.user_properties += self._facts(item.nodeid, call.excinfo.value)
            except Exception as fault:  # noqa: BLE001 - the test's own failure matters more
                report.user_properties.append((LOST, f"{type(fault).__name__}: {fault}"))
        if report.when == "teardown":
            self._failures.clear()
            self._session.forget()

    def _facts(self, name: str, error: BaseException) -> list[tuple[str, str]]:
        """Return what the reduction after the tests has to know."""
        from minifier.embed.session import keep

        number = self._cause_of(error)
        if number is None:
            is_wrong = self._session.has_observed and _is_of_assert_close(error)
            return [(WRONG, name)] if is_wrong else []
        out = place_for_test(name, self._root)
        case = keep(self._session, number, out)
        if case is None:
            return [(LOST, "the failing graph could not be saved; `minify run` on a script may do more")]
        failure = f"{case.backend.name} {case.failure.fingerprint}"
        return [(CASE, str(out)), (FAILURE, hashlib.sha256(failure.encode()).hexdigest())]

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


def _is_of_assert_close(error: BaseException) -> bool:
    """Whether a comparison of torch.testing raised the error."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, AssertionError) and bool(modules) and modules[-1].startswith("torch.testing")
