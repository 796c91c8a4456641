"""Fixtures of the tests of the tool, and the layers that they put a test in; the words are in vocabulary.py.

A test's layer is decided by the fixtures that it uses, directly or through others:

- `soak`: long runs, other programs' long starts (Ray, a browser, the documentation). Layer soak.
- `processes`: the test starts processes, or is `laborious`. Layer test.
- neither: everything happens in the test process. Layer quick; starting a process fails the test.

Of a slow test with many parameters, `layers.sampled` leaves some in layer test and gives the others to soak.
"""

from __future__ import annotations

import difflib
import faulthandler
import importlib
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

# Children are forked from this process: with one thread there is no pool that a fork could break. torch's library
# reads the variable as it is loaded, which the modules of the tests do.
os.environ["OMP_NUM_THREADS"] = "1"

from vocabulary import CASES, Bureau, CommandLine, Minified, Project, in_child

# A test reads no clock, nor does Hypothesis for it: a busy machine takes longer for an example. `make soak` has the
# profile of that name.
hypothesis.settings.register_profile("tests", deadline=None, max_examples=30)
hypothesis.settings.register_profile("soak", deadline=None)
hypothesis.settings.load_profile("tests")

STARTS_A_PROCESS = {"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}

# Where a variable of torch's is set (`make` has TORCH), its defaults are asked of a fresh interpreter.
for name in [name for name in os.environ if name.startswith("TORCH")]:
    del os.environ[name]
# The key of the marks is that of this test run: workers of pytest-xdist and started commands inherit the variable.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _data = tempfile.TemporaryDirectory(prefix="tests-of-minify-")  # removed as the run ends
    os.environ["XDG_DATA_HOME"] = _data.name
# Children die on purpose: their stacks, which pytest would print, bury the failed tests in the output.
os.register_at_fork(after_in_child=faulthandler.disable)
sys.path.append(str(CASES))
# A shell starts what it puts in the background deaf to Ctrl-C, and the tests of Ctrl-C would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same holds for a closed terminal, after `nohup make test`.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the files of tests/goldens/ anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares the text with a file of goldens/, which --update-goldens writes."""

    def compare(name: str, text: str) -> None:
        path = GOLDENS / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != before:
            lines = difflib.unified_diff(before.splitlines(), text.splitlines(), name, "now", lineterm="")
            command = f"pytest --update-goldens {shlex.quote(request.node.nodeid)}"
            pytest.fail("\n".join([*lines, f"If the change is meant: {command}"]), pytrace=False)

    return compare


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have recorded as `printed`: output of a worker process, and of a test that passes, is lost."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "printed":
                terminalreporter.write_line(str(text))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print, as the last lines, the command that repeats each failed test."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    failed = dict.fromkeys(report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, ()))
    for test in failed:
        reporter.write_line(f"repeat it: .venv/bin/python -m pytest {shlex.quote(test)}")


_running_quick = ""  # the id of the quick test that runs now


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its layer."""
    for item in items:
        if item.get_closest_marker("soak"):  # a parameter of a slow test, marked by layers.sampled
            continue
        fixtures = getattr(item, "fixturenames", ())
        layer = "soak" if "soak" in fixtures else "test" if "processes" in fixtures else "quick"
        item.add_marker(layer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _running_quick
    _running_quick = item.nodeid if item.get_closest_marker("quick") else ""
    try:
        return (yield)
    finally:
        _running_quick = ""


def _keep_quick_tests_in_process(event: str, _arguments: tuple[object, ...]) -> None:
    if _running_quick and event in STARTS_A_PROCESS:
        pytest.fail(f"{_running_quick} starts a process ({event}): let it use the fixture `processes`")


sys.addaudithook(_keep_quick_tests_in_process)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_are_pytests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What this process and its forks leave, as they do if a test kills them, goes with the tests' own folders."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.getbasetemp())
    yield
    tempfile.tempdir = before


@pytest.fixture(scope="module", autouse=True)
def _leave_torch_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the module that changes torch's configuration: scripts of later tests run in forks of this process, and
    what is set already counts as torch's own."""
    before = _torch_config()
    yield
    after = _torch_config()
    changed = {place: after[place] for place, value in before.items() if place in after and after[place] != value}
    assert not changed, f"{request.node.name} leaves torch's configuration changed: {changed}"


def _torch_config() -> dict[tuple[str, str], Any]:
    """Every value of torch's configuration, none as long as nothing has imported what reads it."""
    modes = sys.modules.get("minifier.torch_side.torch_private.modes")
    return modes.config_values() if modes else {}


@pytest.fixture(scope="session")
def processes() -> None:
    """Declare that a test starts processes."""


@pytest.fixture(scope="session")
def laborious(processes: None) -> None:
    """Declare that a test computes for many seconds, though in the test process: it compiles whole models, say."""


@pytest.fixture(scope="session")
def soak(processes: None) -> None:
    """Declare that a test takes long, or starts a program that does."""


@pytest.fixture
def project(tmp_path: Path, processes: None) -> Project:
    return Project(tmp_path)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str, str], ModuleType]]:
    """`imported(name, text)` is the module with this text, which is forgotten after the test."""
    names: list[str] = []

    def write_and_import(name: str, text: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(tmp_path)
    yield write_and_import
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def refusing(tmp_path: Path) -> CommandLine:
    """A project whose `minify` runs in this process: for what is refused before anything is started."""
    return CommandLine(tmp_path)


@pytest.fixture
def minify(project: Project) -> Callable[..., Minified]:
    """`minify(text, *arguments, given=options)` runs a script of this text under `minify run`."""
    return project.run


@pytest.fixture
def forked(tmp_path: Path, processes: None) -> Callable[..., Any]:
    """`forked(work)` gives what `work()` gives, run in a child, so that it cannot change this process."""
    return lambda work, timeout=60: in_child(work, tmp_path, timeout)


@pytest.fixture
def bureau(tmp_path: Path, processes: None) -> Bureau:
    return Bureau(tmp_path)
