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
    is_controller = bool(getattr(config.option, "dist", "no") != "no") and not hasattr(config, "workerinput")
    if config.getoption("--minify") and not is_controller:
        config.pluginmanager.register(_Minify(config), "minify-tests")


class _Minify:
    def __init__(self, config: pytest.Config) -> None:
        from minifier.embed.session import Session

        self._options = shlex.split(config.getoption("--minify-options"))
        self._folder = config.rootpath / RESULTS
        self._failed: list[tuple[int, BaseException]] = []
        self._session = Session("test", lambda compiler_fn: compiler_fn, self._note)

    def _note(self, number: int, error: BaseException) -> None:
        self._failed.append((number, error))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
        """Adds the repro to the report of a test that failed."""
        result = yield
        report = result.get_result()
        number = self._cause_of(call.excinfo.value) if call.excinfo is not None else None
        if report.when == "call" and report.failed and number is not None:
            try:
                said = self._reduced(item.nodeid, number)
            except Exception as fault:  # noqa: BLE001 - it is beside what the test has to say
                said = f"no repro could be made: {type(fault).__name__}: {fault}"
            report.sections.append((_SECTION, said))
        if report.when == "teardown":
            self._failed.clear()
            self._session.forget()

    def _cause_of(self, error: BaseException) -> int | None:
        """The number of the graph whose failure this is, or came of; not one that the test had expected."""
        from minifier.torch_private import backend_error

        seen: list[BaseException] = []
        at: BaseException | None = error
        while at is not None and at not in seen:
            seen.append(at)
            at = at.__cause__ or at.__context__
        for number, noted in self._failed:
            told = backend_error(noted)
            if any(each is noted or backend_error(each) is told for each in seen):
                return number
        return None

    def pytest_unconfigure(self) -> None:
        """Observes no longer."""
        self._session.end()

    def _reduced(self, name: str, number: int) -> str:
        from minifier.embed.reducing import LOG, ended, start_reducing
        from minifier.embed.session import keep

        out = next_place(re.sub(r"\W+", "-", name).strip("-"), self._folder)
        if keep(self._session, number, out) is None:
            return "the failing graph could not be saved; `minify run` on a script may do more"
        repro = ended(start_reducing(out, self._options), out)
        if repro is None:
            return f"no repro shows this failure:\n{(out / LOG).read_text(encoding='utf-8')}"
        return f"{repro.read_text(encoding='utf-8')}\n{repro}"
