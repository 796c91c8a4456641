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
import importlib
import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from mutants import Mutant, mutants_of  # noqa: E402
from mutation_forks import NOT_TRIED, can_be_swapped, in_fork, module_name, run_all, swap, wait_for  # noqa: E402
from mutation_plugins import Chosen, Mutated, NotTried, Survey, Warm, run_pytest, survey_of  # noqa: E402

MODULES = (
    "minifier/search",
    "minifier/data/failure",
    "minifier/reduction/passes",
    "minifier/torch_side/compare/judge_tensor.py",
)
TESTS = (
    "search failure passes case dynamic simplify probe/test_judge.py report/test_others.py compare/test_judgements.py"
    " compare/test_judgements_by_kind.py compare/test_values.py compare/test_draws.py compare/test_measure.py"
    " compare/test_aspects.py compare/test_parting.py compare/test_lazily.py compare/test_sums.py"
)
WAIVERS = ROOT / "benchmarks" / "mutants_waived.json"
PRELOADED = (
    "torch torch._dynamo torch._inductor.compile_fx torch._functorch.aot_autograd torch.nn.attention.flex_attention"
    " torch.utils.checkpoint torch.testing numpy safetensors.torch hypothesis libcst rich.console jinja2 click pygments"
)


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
            if os.waitstatus_to_exitcode(status) == NOT_TRIED:
                raise NotTried(line_of(mutant))
            self._settle(mutant, status != 0)

    def _settle(self, mutant: Mutant, killed: bool) -> None:
        self.killed[mutant] = killed
        if not killed and self._survivors:
            with self._survivors.open("a") as file:
                file.write(f"{line_of(mutant)}\n")


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

        return run_pytest(_files(survey), Warm(judge)) == 0

    wait_for(in_fork(inside))
    killed = {mutants[i]: value for i, value in json.loads(results.read_text())}
    rest = score()

    def survives(mutant: Mutant, tests: list[str]) -> bool:
        source = mutant.source(texts[mutant.path])
        mutated = Mutated(module_name(mutant.path), str(ROOT / mutant.path), source)
        passed = run_pytest(_files(tests), Chosen(tests, mutated)) == 0
        if not mutated.used and module_name(mutant.path) in sys.modules:
            raise NotTried(line_of(mutant))
        return passed

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
            wait_for(in_fork(lambda: (survey_of(paths, given.tests, survey), True)[1], quiet=False))
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
