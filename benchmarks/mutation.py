"""Measures the quick tests by mutation: how many of the mistakes that mutants.py makes do they notice?

    python benchmarks/mutation.py                    every mutant of the modules in MODULES (about ten minutes)
    python benchmarks/mutation.py --sample 600       some of each module, the same ones each time
    python benchmarks/mutation.py --only passes/ops  the modules whose path contains this

Interpreters are forked, never started. One forked child runs the quick tests once and notes which lines each of them
runs. Another imports everything, and forks once for each mutant inside a function: the child gives the function the
mutant's code, and runs the tests of that line until one fails (first those in files of the module's name, the fastest
first). Mutants of what importing a module runs get a child that has imported no module of this tool yet. A test that
starts a process is not quick, and is left out. A mutant counts as killed if a test fails, or takes far more processor
time than all of the tests did. Tests beyond `--seconds` in all are not run for a mutant.

WAIVERS lists mutants that no test can notice, with the reason; the score is told with and without them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from mutants import Mutant, mutants_of  # noqa: E402

MODULES = ("minifier/search", "minifier/failure", "minifier/passes", "minifier/compare/judge.py")
TESTS = (
    "search failure passes case dynamic simplify probe/test_judge.py report/test_others.py compare/test_judgements.py"
    " compare/test_values.py compare/test_draws.py compare/test_measure.py compare/test_aspects.py"
    " compare/test_parting.py compare/test_lazily.py compare/test_sums.py"
)
WAIVERS = ROOT / "benchmarks" / "mutants_waived.json"
PRELOADED = (
    "torch torch._dynamo torch._inductor.compile_fx torch._functorch.aot_autograd torch.nn.attention.flex_attention"
    " torch.utils.checkpoint torch.testing numpy safetensors.torch hypothesis libcst rich.console jinja2 click pygments"
)
# A test whose fixtures include one of these starts processes.
NOT_QUICK = {"processes", "soak", "project", "minify", "bureau", "forked"}
STARTS = ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "subprocess.Popen")
OPTIONS = ("-q", "-x", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:minify", "-p", "no:xdist")
MAX_GROWTH_BYTES = 4 << 30  # of a child's address space, beyond what it was forked with
WALL_SECONDS = 120.0  # for a child that waits and takes no processor time

Survey = dict[str, dict[str, Any]]  # by test: how long it took, and the lines of each module that it runs


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


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source."""

    def __init__(self, name: str, path: str, source: str) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=self._path, is_package=False)
        spec.has_location = True
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self._source, self._path, "exec"), module.__dict__)


class Chosen:
    """A pytest plugin that imports one module from a mutant's source, and runs some tests of those collected."""

    def __init__(self, tests: Sequence[str], mutated: _Mutated) -> None:
        self._tests = tests
        self._mutated = mutated

    def pytest_configure(self) -> None:
        sys.meta_path.insert(0, self._mutated)  # ahead of pytest's own, which rewrites assertions

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._tests]


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _function(module: types.ModuleType, dotted: str) -> types.FunctionType | None:
    """The function of this name; None if it cannot be told which (it is wrapped in something unknown)."""
    found: Any = module
    for name in dotted.split("."):
        found = vars(found).get(name)
    for attribute in ("fget", "func", "__func__", "__wrapped__"):
        found = getattr(found, attribute, found)
    return found if isinstance(found, types.FunctionType) and found.__module__ == module.__name__ else None


def _code(code: types.CodeType, dotted: str) -> types.CodeType:
    for name in dotted.split("."):
        code = next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == name)
    return code


def can_be_swapped(mutant: Mutant) -> bool:
    """Whether the mutant is inside a function whose code can be replaced in a module that is imported already."""
    module = sys.modules[module_name(mutant.path)]
    return bool(mutant.function) and _function(module, mutant.function) is not None


def swap(mutant: Mutant, text: str) -> None:
    """Gives the function the mutant's code."""
    function = _function(sys.modules[module_name(mutant.path)], mutant.function)
    assert function is not None
    code = _code(compile(mutant.source(text), str(ROOT / mutant.path), "exec"), mutant.function)
    function.__code__ = code


def _run_pytest(arguments: Iterable[str], plugin: object) -> int:
    import hypothesis
    import pytest

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


def in_fork(work: Callable[[], bool], cpu_seconds: float | None = None, quiet: bool = True) -> int:
    """Forks a child that exits with 0 if `work()` is true, else 1; the child's process id."""
    sys.stdout.flush()
    gc.freeze()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if quiet:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        if cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 2))
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            growth = pages * resource.getpagesize() + MAX_GROWTH_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (growth, growth))
        code = 0 if work() else 1
    finally:
        os._exit(code)


def run_all(jobs: Iterable[tuple[Mutant, Callable[[], int]]], workers: int) -> Iterator[tuple[Mutant, int]]:
    """Starts the jobs, some at a time; yields each mutant with its child's wait status."""
    running: dict[int, tuple[Mutant, float]] = {}
    left = iter(jobs)
    while True:
        while len(running) < workers and (job := next(left, None)) is not None:
            running[job[1]()] = (job[0], time.monotonic() + WALL_SECONDS)
        if not running:
            return
        for pid, (mutant, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                yield mutant, status
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


class Score:
    """The mutants, the tests that reach each, and what has come of them so far."""

    def __init__(self, survey: Survey, seconds: float, workers: int, survivors: Path | None = None) -> None:
        self._survey, self._seconds, self._workers = survey, seconds, workers
        self._survivors = survivors
        self.killed: dict[Mutant, bool] = {}

    def tests_for(self, mutant: Mutant) -> list[str]:
        """The tests that run the mutant's statement. Of what an import runs, or where no test does, those that run any
        line of the module, and those in the folder of the same name."""
        home = f"tests/{Path(mutant.path).parent.name}/"
        wanted = set(mutant.lines) if mutant.function else set()
        at_home = [test for test in self._survey if test.startswith(home)]
        reaching = [
            test
            for test, seen in self._survey.items()
            if mutant.path in seen["lines"] and (not wanted or not wanted.isdisjoint(seen["lines"][mutant.path]))
        ]
        if not reaching:  # or nobody saw them: what Python calls as an audit hook is not traced
            reaching = [test for test, seen in self._survey.items() if mutant.path in seen["lines"]]
        if not mutant.function or not reaching:
            reaching = [*dict.fromkeys((*reaching, *at_home))]
        stem = Path(mutant.path).stem

        def cost(test: str) -> tuple[bool, bool, float]:
            away = not test.startswith(home)
            return stem not in test.partition("::")[0], away, self._survey[test]["seconds"]

        chosen, spent = [], 0.0
        for test in sorted(reaching, key=cost):
            spent += self._survey[test]["seconds"]
            if spent > self._seconds and chosen:
                break
            chosen.append(test)
        return chosen

    def _cpu_limit(self, tests: Sequence[str]) -> float:
        return 2 + 2 * sum(self._survey[test]["seconds"] for test in tests)

    def judge(self, mutants: Sequence[Mutant], survives: Callable[[Mutant, list[str]], bool]) -> None:
        """Runs `survives(mutant, tests)` in a child for each mutant; a mutant that no test reaches survives."""

        def jobs() -> Iterator[tuple[Mutant, Callable[[], int]]]:
            for mutant in mutants:
                tests = self.tests_for(mutant)
                if not tests:
                    self._settle(mutant, False)
                    continue
                limit = self._cpu_limit(tests)
                yield mutant, lambda m=mutant, t=tests, s=limit: in_fork(lambda: survives(m, t), s)

        for mutant, status in run_all(jobs(), self._workers):
            self._settle(mutant, status != 0)

    def _settle(self, mutant: Mutant, killed: bool) -> None:
        self.killed[mutant] = killed
        if not killed and self._survivors:
            with self._survivors.open("a") as file:
                file.write(f"{line_of(mutant)}\n")


def survey_of(paths: Sequence[str], tests: Sequence[str], into: Path) -> None:
    plugin = Surveyor(paths)
    if _run_pytest(["--maxfail=1000000", *tests], plugin) != 0:
        raise ValueError("the tests could not be collected")
    into.write_text(json.dumps({"tests": plugin.tests(), "not quick": plugin.not_quick}))


def _wait(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"a child ended with status {status}")


def _files(tests: Iterable[str]) -> list[str]:
    return sorted({test.partition("::")[0] for test in tests})


def measure(mutants: Sequence[Mutant], survey: Survey, score: Callable[[], Score], scratch: Path) -> dict[Mutant, bool]:
    """Which mutants are killed; a score that begins is made by `score()`."""
    texts = {path: (ROOT / path).read_text() for path in {mutant.path for mutant in mutants}}
    results = scratch / "inside.json"

    def inside() -> bool:
        def judge(warm: Warm) -> None:
            for mutant in mutants:
                importlib.import_module(module_name(mutant.path))
            warm.require(survey)
            warm_score = score()
            warm_score.judge(
                [mutant for mutant in mutants if can_be_swapped(mutant)],
                lambda mutant, tests: (swap(mutant, texts[mutant.path]), not warm.fails(tests))[1],
            )
            results.write_text(json.dumps([[mutants.index(m), killed] for m, killed in warm_score.killed.items()]))

        return _run_pytest(_files(survey), Warm(judge)) == 0

    _wait(in_fork(inside))
    killed = {mutants[i]: value for i, value in json.loads(results.read_text())}
    rest = score()

    def survives(mutant: Mutant, tests: list[str]) -> bool:
        source = mutant.source(texts[mutant.path])
        mutated = _Mutated(module_name(mutant.path), str(ROOT / mutant.path), source)
        return _run_pytest(_files(tests), Chosen(tests, mutated)) == 0

    # A function may have run while its module was imported: what survived the swap is tried by an import as well.
    rest.judge([mutant for mutant in mutants if not killed.get(mutant)], survives)
    return {**killed, **rest.killed}


def sampled(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """About so many mutants, of each module its share, the same for the same seed."""
    by_path: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_path[mutant.path].append(mutant)
    chosen: set[Mutant] = set()
    for path, own in sorted(by_path.items()):
        wanted = min(len(own), -(-count * len(own) // len(mutants)))
        chosen.update(random.Random(f"{seed}{path}").sample(own, wanted))
    return [mutant for mutant in mutants if mutant in chosen]


def waived(mutants: Iterable[Mutant], waivers: Sequence[dict[str, str]]) -> set[Mutant]:
    """Those of the mutants that are in the list."""
    listed = {(each["path"], each["line"], each["mutant"]) for each in waivers}
    return {mutant for mutant in mutants if (mutant.path, mutant.text, mutant.diff) in listed}


def line_of(mutant: Mutant) -> str:
    """The mutant for people."""
    return f"{mutant.path}:{mutant.line}: {mutant.diff}   in   {mutant.text}"


def report(killed: dict[Mutant, bool], excused: set[Mutant]) -> str:
    """The table, and every mutant that survived."""
    rows = ["| module | mutants | killed | survived | waived |", "| --- | --- | --- | --- | --- |"]
    for path in [*dict.fromkeys(mutant.path for mutant in killed), "all"]:
        own = [mutant for mutant in killed if path in ("all", mutant.path)]
        survived = [mutant for mutant in own if not killed[mutant]]
        spared = sum(mutant in excused for mutant in survived)
        rows.append(f"| {path} | {len(own)} | {len(own) - len(survived)} | {len(survived)} | {spared} |")
    survivors = [mutant for mutant in killed if not killed[mutant]]
    gone = len(killed) - len(survivors)
    equal = sum(mutant in excused for mutant in survivors)
    rows.append(
        f"\nkilled: {gone / max(1, len(killed)):.1%} of all, {gone / max(1, len(killed) - equal):.1%} without waived"
    )
    lines = [line_of(mutant) for mutant in survivors if mutant not in excused]
    return "\n".join([*lines, "", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sample", type=int, help="about so many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[""], help="modules whose path contains one of these")
    parser.add_argument("--tests", nargs="*", default=[f"tests/{name}" for name in TESTS.split()], help="of tests")
    parser.add_argument("--seconds", type=float, default=10.0, help="of tests for each mutant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--survey", type=Path, help="keep the survey in this file, or use the one that is there")
    parser.add_argument("--report", type=Path, help="write to this file, too, and survivors as they come beside it")
    given = parser.parse_args()

    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in PRELOADED.split():
        importlib.import_module(name)
    files = [
        f for each in MODULES for f in ([ROOT / each] if each.endswith(".py") else sorted((ROOT / each).glob("*.py")))
    ]
    paths = [str(file.relative_to(ROOT)) for file in files]
    with tempfile.TemporaryDirectory() as folder:
        survey = given.survey or Path(folder) / "survey.json"
        if not survey.exists():
            _wait(in_fork(lambda: (survey_of(paths, given.tests, survey), True)[1], quiet=False))
        surveyed = json.loads(survey.read_text())
        tests: Survey = surveyed["tests"]
        took = sum(test["seconds"] for test in tests.values())
        print(f"{len(tests)} quick tests, {took:.0f} s with tracing; {len(surveyed['not quick'])} are not quick")
        wanted = [path for path in paths if any(part in path for part in given.only)]
        mutants = [mutant for path in wanted for mutant in mutants_of(path, (ROOT / path).read_text())]
        mutants = sampled(mutants, given.sample, given.seed) if given.sample else mutants
        survivors = given.report and given.report.with_name(f"{given.report.name}.survivors")
        killed = measure(mutants, tests, lambda: Score(tests, given.seconds, given.workers, survivors), Path(folder))
    waivers = json.loads(WAIVERS.read_text()) if WAIVERS.exists() else []
    said = report({mutant: killed[mutant] for mutant in mutants}, waived(mutants, waivers))
    print(said)
    if given.report:
        given.report.write_text(f"{said}\n")


if __name__ == "__main__":
    main()
