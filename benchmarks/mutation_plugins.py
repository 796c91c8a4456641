"""Runs pytest in forked children: to see what each test reaches, and to have some tests judge a mutant."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
import time
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[1]

# A test whose fixtures include one of these starts processes.
NOT_QUICK = {"processes", "soak", "project", "minify", "bureau", "forked"}
STARTS = ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "subprocess.Popen")
OPTIONS = ("-q", "-x", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:minify", "-p", "no:xdist")

Survey = dict[str, dict[str, Any]]
"""By test: how long it took ("seconds"), and the lines of each module that it runs ("lines")."""


class Surveyor:
    """A pytest plugin that notes, of each test that passes and starts no process, its time and the lines it runs."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = {str(ROOT / path): path for path in paths}
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=list(self._paths), messages=False)
        self._started: str | None = None
        self._inside = False
        self._seconds: dict[str, float] = {}
        self.not_quick: list[str] = []
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if self._inside and event in STARTS:
            self._started = event
            raise RuntimeError(f"a quick test must not start a process: {event}")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.not_quick += [item.nodeid for item in items if not NOT_QUICK.isdisjoint(item.fixturenames)]
        items[:] = [item for item in items if NOT_QUICK.isdisjoint(item.fixturenames)]

    def pytest_runtestloop(self) -> None:
        self._coverage.start()

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool:
        self._coverage.switch_context(item.nodeid)
        self._started, self._inside = None, True
        began = time.process_time()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        self._inside = False
        if self._started is None and all(report.passed for report in reports):
            self._seconds[item.nodeid] = time.process_time() - began
        else:
            self.not_quick.append(f"{item.nodeid} ({self._started or 'did not pass'})")
        return True

    def tests(self) -> Survey:
        """What was noted, by test."""
        self._coverage.stop()
        data = self._coverage.get_data()
        found: Survey = {test: {"seconds": seconds, "lines": {}} for test, seconds in self._seconds.items()}
        for absolute, path in self._paths.items():
            for line, tests in data.contexts_by_lineno(absolute).items():
                for test in found.keys() & tests:
                    found[test]["lines"].setdefault(path, []).append(line)
        return found


class Warm:
    """A pytest plugin that, in place of running the tests, forks a child for each mutant, which runs some of them."""

    def __init__(self, judge: Callable[[Warm], None]) -> None:
        self._judge = judge
        self._items: dict[str, Any] = {}

    def require(self, tests: Iterable[str]) -> None:
        """Raises ValueError where one of the tests is not there: its absence would look like a failure."""
        missing = sorted(set(tests) - self._items.keys())
        if missing:
            raise ValueError(f"tests of the survey that are not there, {missing[0]} the first: take another survey")

    def pytest_runtestloop(self, session: Any) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._session = session
        self._judge(self)
        return True

    def fails(self, tests: Sequence[str]) -> bool:
        """Runs tests until one fails; whether one did."""
        items = [self._items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                return True
        return False


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source."""

    def __init__(self, name: str, path: str, source: str) -> None:
        self._name, self._path, self._source = name, path, source
        self.used = False

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=self._path, is_package=False)
        spec.has_location = True
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        self.used = True
        exec(compile(self._source, self._path, "exec"), module.__dict__)


class Chosen:
    """A pytest plugin that imports one module from a mutant's source, and runs some tests of those collected."""

    def __init__(self, tests: Sequence[str], mutated: Mutated) -> None:
        self._tests = tests
        self._mutated = mutated

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        sys.meta_path.insert(0, self._mutated)  # ahead of pytest's own, and of what a conftest imports

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._tests]


def run_pytest(arguments: Iterable[str], plugin: object) -> int:
    import hypothesis

    hypothesis.settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=tuple(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutation")
    return int(pytest.main([*OPTIONS, *arguments], plugins=[plugin]))


class NotTried(Exception):
    """The tests ran without the mutant."""


def survey_of(paths: Sequence[str], tests: Sequence[str], into: Path) -> None:
    plugin = Surveyor(paths)
    if run_pytest(["--maxfail=1000000", *tests], plugin) != 0:
        raise ValueError("the tests could not be collected")
    into.write_text(json.dumps({"tests": plugin.tests(), "not quick": plugin.not_quick}))
