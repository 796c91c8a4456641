"""`pytest --minify`: each distinct failure in a backend of torch.compile gets a repro, after the tests."""

from __future__ import annotations

import ast
import hashlib
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from minifier.data.case.run_folder import shown_path
from minifier.data.failure.normalise import printable
from minifier.data.failure.observed import chain
from minifier.flow.embed.reducing import LOG, place_for_test, run_again, start_reducing, wait_for_repro
from minifier.flow.folders import earlier_run
from minifier.process.progress import counted
from minifier.repro.report.last_block import ResultRow, lines_of


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
        from minifier.flow.prepare import import_with_torch

        try:
            session = import_with_torch("minifier.flow.embed.session")
        except UsageError as error:
            raise pytest.UsageError(f"--minify: {error}") from None
        self._root = config.rootpath
        self._failures: list[tuple[int, BaseException]] = []
        self._session = session.Session("test", self._note)

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
        from minifier.flow.embed.session import keep

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
        from minifier.torch_side.torch_private.dynamo import backend_error

        for number, failure in self._failures:
            inner = backend_error(failure)
            if any(link is failure or backend_error(link) is inner for link in chain(error)):
                return number
        return None

    def pytest_unconfigure(self) -> None:
        """Stop observing."""
        self._session.end()


def script_of(name: str, root: Path) -> str:
    """Return a script that has the test's module and calls the test; "" for a method or a test with arguments."""
    from minifier.repro.source.run_source import with_first

    path, _, function = name.partition("::")
    text = (root / path).read_text(encoding="utf-8")
    tests = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == function]
    if not tests or ast.unparse(tests[-1].args):
        return ""
    folders = f"import sys\n\nsys.path.insert(0, {str((root / path).parent)!r})\n"
    return with_first(f"{text}\n\n{function}()\n", folders)


def _is_of_assert_close(error: BaseException) -> bool:
    """Whether a comparison of torch.testing raised the error."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, AssertionError) and bool(modules) and modules[-1].startswith("torch.testing")


# User properties of the report of a failed test.
CASE = "minify case"  # the folder of the kept Case
FAILURE = "minify failure"  # a digest; failures with the same digest are reduced once
WRONG = "minify wrong result"  # the test, which is run again and compared with eager
LOST = "minify lost"  # why nothing could be kept

_INTERRUPTED = "interrupted"


@dataclass
class _Distinct:
    """A failure of one or more tests. `folder` has its Case, or the run of its only test.

    `said`: why there is no repro. `repro` is its path.
    """

    folder: Path | None = None
    tests: list[str] = field(default_factory=list)
    repro: Path | None = None
    said: str = ""

    def rows(self) -> list[ResultRow]:
        """Return what failed, in which tests, how small it became, and the path of the repro."""
        run = earlier_run(self.folder) if self.folder is not None else None
        more = f" and {counted(len(self.tests) - 1, 'other test')}" if len(self.tests) > 1 else ""
        rows = [
            ResultRow("failed", printable(run.failure) if run is not None else ""),
            ResultRow("in", f"{self.tests[0]}{more}"),
            ResultRow("reduced", run.size if run is not None else ""),
            ResultRow("no repro", printable(self.said.partition("\n")[0])),
            ResultRow("repro", shown_path(self.repro) if self.repro is not None else "", verbatim=True),
        ]
        return [row for row in rows if row.text]


class AfterTests:
    """Collects the failures of all processes of the run, and reduces them in the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._options = shlex.split(config.getoption("--minify-options"))
        self._budget: float | None = config.getoption("--minify-budget")
        self._failures: dict[str, _Distinct] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the failure of a test, once for each failure that differs."""
        facts = dict(report.user_properties) if report.when == "call" and report.failed else {}
        if (key := facts.get(FAILURE) or facts.get(WRONG) or facts.get(LOST)) is None:
            return
        distinct = self._failures.setdefault(str(key), _Distinct(said=str(facts.get(LOST, ""))))
        distinct.tests.append(report.nodeid)
        if CASE in facts and distinct.folder is None:
            distinct.folder = Path(str(facts[CASE]))
        elif CASE in facts:  # this failure already has a Case
            shutil.rmtree(str(facts[CASE]), ignore_errors=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Reduce the failures one after another, ahead of the writing of reports."""
        failures = list(self._failures.values())
        if not failures:
            return
        tests = sum(len(each.tests) for each in failures)
        self._say(f"minify: {counted(len(failures), 'distinct failure')} in {counted(tests, 'test')}")
        started, was_interrupted = time.monotonic(), exitstatus == pytest.ExitCode.INTERRUPTED
        for number, distinct in enumerate(failures, 1):
            if distinct.said:
                continue
            spent = time.monotonic() - started
            left = None if self._budget is None else (self._budget - spent) / (len(failures) - number + 1)
            if was_interrupted or (left is not None and left <= 0):
                distinct.said = _INTERRUPTED if was_interrupted else "--minify-budget was used up"
                continue
            self._say(f"minify: {number} of {len(failures)}: {distinct.tests[0]}")
            try:
                self._reduce(distinct, left)
            except KeyboardInterrupt:
                distinct.said, was_interrupted = _INTERRUPTED, True
        self._tell()

    def _reduce(self, distinct: _Distinct, seconds: float | None) -> None:
        """Make the repro, or say why there is none."""
        options = [*([] if seconds is None else ["--budget", f"{seconds:.0f}"]), *self._options]
        if distinct.folder is not None:
            repro = wait_for_repro(start_reducing(distinct.folder, options), distinct.folder)
        else:
            name = distinct.tests[0]
            out = place_for_test(name, self._config.rootpath)
            repro = run_again(out, options, self._command(name))
            result = earlier_run(out).result
            if (result.get("status"), result.get("level")) == ("no-repro", "source"):  # it fails, and no graph does
                out, repro = self._reduce_test(name, out, options)
            distinct.folder = out
        distinct.repro = repro
        if repro is None:
            log = (distinct.folder / LOG).read_text(encoding="utf-8")
            distinct.said = f"see {shown_path(distinct.folder / LOG)}\n{log}"

    def _reduce_test(self, name: str, out: Path, options: list[str]) -> tuple[Path, Path | None]:
        """Reduce the test's module with a call of the test; return the folder and the repro, else `out` and None."""
        if not (text := script_of(name, self._config.rootpath)):
            return out, None
        place = place_for_test(name, self._config.rootpath)
        with tempfile.TemporaryDirectory(prefix="minify-") as folder:
            script = Path(folder) / Path(name.partition("::")[0]).name
            script.write_text(text, encoding="utf-8")
            repro = run_again(place, options, ["--level", "source", str(script)])
        kept, useless = (out, place) if repro is None else (place, out)
        shutil.rmtree(useless, ignore_errors=True)
        return kept, repro

    def _command(self, name: str) -> list[str]:
        """Return the arguments of `minify run` that run only this test, in one process."""
        one_process = ["-n0"] if self._config.pluginmanager.hasplugin("xdist") else []
        return ["-m", "pytest", "-p", "no:cacheprovider", *one_process, str(self._config.rootpath / name)]

    def _tell(self) -> None:
        """Name the repro in the report of each test."""
        places = {test: distinct for distinct in self._failures.values() for test in distinct.tests}
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        for report in reporter.stats.get("failed", []) if reporter is not None else []:
            if report.when == "call" and report.nodeid in places:
                report.sections.append(("minify", _section(places[report.nodeid], report.nodeid)))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print rows for each of the failures."""
        if self._failures:
            terminalreporter.section("minify")
        for distinct in self._failures.values():
            for line, _ in lines_of(distinct.rows(), terminalreporter._tw.fullwidth):
                terminalreporter.line(line)
            terminalreporter.line("")

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            if reporter._tw.width_of_current_line:  # of the progress in dots
                reporter.line("")
            reporter.line(printable(line))


def _section(distinct: _Distinct, test: str) -> str:
    """Return the section of a test's report: the repro, or where it stands."""
    if distinct.repro is None:
        return printable(f"no repro shows this failure: {distinct.said}")
    if test != distinct.tests[0]:
        return f"the same failure as {distinct.tests[0]}: {shown_path(distinct.repro)}"
    return f"{distinct.repro.read_text(encoding='utf-8')}\n{shown_path(distinct.repro)}"
