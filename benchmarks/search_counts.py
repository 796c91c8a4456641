"""Counts the probes of the search core on planted faults, and what each of its parts saves.

Needs no torch and takes less than a minute: `python benchmarks/search_counts.py` prints the tables of
notes/search.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import comb, log2
from pathlib import Path
from random import Random
from statistics import mean

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "search")]

from search_faults import (  # noqa: E402
    EMPTY,
    FakeProber,
    Fault,
    adjacent,
    any_of_each,
    hidden,
    needs,
    of_kind,
    whole_fails,
)
from search_graphs import chain_of, scattered, transformer  # noqa: E402

from minifier.search import Budget, Problem, Result  # noqa: E402
from minifier.search.atoms import (  # noqa: E402
    Dataflow,
    Mask,
    mask_of,
    members,
)
from minifier.search.phases import (  # noqa: E402
    ball,
    delete,
    guess,
    prefix,
    proving,
)
from minifier.search.walk import (  # noqa: E402
    Ask,
    Step,
    Walk,
)

Case = tuple[Problem, Fault]


@dataclass(frozen=True, slots=True)
class Parts:
    """Which parts of the search take part."""

    guess: bool = True
    hints: bool = True
    representatives: bool = True
    prefix: bool = True
    ball: bool = True
    domination: bool = True


def search(problem: Problem, fault: Fault, parts: Parts = Parts(), workers: int = 1) -> Result:
    """One search with some parts left out, wired as `phases.plan` wires them all."""
    flow = Dataflow(problem)

    def narrowing(kept: Mask) -> Step:
        if parts.prefix:
            return prefix(kept, looking_around)
        order = flow.depth_first(members(kept)[-1], kept)
        return delete(kept, order, proving)

    def looking_around(kept: Mask, needed: int) -> Step:
        return ball(flow, kept, needed, deleting) if parts.ball else deleting(kept, needed)

    def deleting(kept: Mask, needed: int) -> Step:
        return delete(kept, flow.depth_first(needed, kept)[1:], proving)

    everything = mask_of(problem.everything)
    guessed = problem if parts.hints else replace(problem, hints=())
    if not parts.representatives:  # where no kind repeats, the first of each kind is everything
        guessed = replace(guessed, kinds=tuple(map(str, range(problem.size))))
    step = guess(guessed, flow, everything, narrowing) if parts.guess else narrowing(everything)
    walk = Walk(FakeProber(fault, workers), {EMPTY: False}, Budget(), None)
    return walk.run(everything, step if parts.domination else _undominated(step))


def _undominated(step: Step) -> Step:
    if not isinstance(step, Ask):
        return step
    return replace(step, inferable=False, answered=lambda fails: _undominated(step.answered(fails)))


def planted_table() -> None:
    rows = []
    for shape, draw in (("chain", chain_of), ("scattered", scattered)):
        for n in (26, 104, 1_001, 4_992):
            problem = transformer(n)
            for m in (1, 2, 3) if shape == "chain" else (2, 5, 20):
                if m > n // 4:
                    continue
                bound = log2(n) + 12 if shape == "chain" else 1.3 * log2(comb(n, m)) + 2 * m + 8
                faults = [draw(problem, m, Random(seed)) for seed in range(12 if n > 2_000 else 40)]
                began = time.process_time()
                alone = [search(problem, needs(*planted)) for planted in faults]
                cost = 1e3 * (time.process_time() - began) / sum(result.probes for result in alone)
                four = [search(problem, needs(*planted), workers=4) for planted in faults]
                assert [one.kept for one in alone] == [one.kept for one in four] == faults
                probes = [result.probes for result in alone]
                rows.append(
                    [
                        shape,
                        f"{n:,}",
                        m,
                        f"{mean(probes):.1f}",
                        max(probes),
                        f"{bound:.1f}",
                        f"{mean(result.rounds for result in four):.1f}",
                        f"{cost:.2f}",
                    ]
                )
    print_table(["fault", "n", "m", "mean", "most", "bound", "rounds, 4 workers", "ms / probe"], rows)


def ablation_table() -> None:
    variants = {
        "all": Parts(),
        "no guess at all": Parts(guess=False),
        "no hints": Parts(hints=False),
        "no representatives": Parts(representatives=False),
        "no prefix, no ball": Parts(prefix=False),
        "no ball": Parts(ball=False),
        "no domination": Parts(domination=False),
    }
    rows = []
    for name, draw in FAULTS.items():
        cases = [draw(Random(seed)) for seed in range(25)]
        counts = [mean(search(*case, parts).probes for case in cases) for parts in variants.values()]
        rows.append([name, *(f"{count:.1f}" for count in counts)])
    print_table(["fault", *variants], rows)


N = 1_001
PROBLEM = transformer(N)
SOFTMAXES = of_kind(PROBLEM, "softmax")


def _hinted(random: Random, also: Callable[[int], Iterable[int]]) -> Case:
    """The error names one op, truly; `also` are the others that it takes."""
    op = random.randrange(N // 4, N - 20)
    return replace(PROBLEM, hints=((op,),)), needs(op, *also(op))


def _once(random: Random) -> Case:
    op = random.randrange(N)
    return replace(PROBLEM, kinds=(*PROBLEM.kinds[:op], "tanh", *PROBLEM.kinds[op + 1 :])), needs(op)


def _pattern(random: Random) -> Case:
    reader = random.randrange(1, N)
    read = random.choice(PROBLEM.parents[reader])
    return PROBLEM, adjacent(PROBLEM, PROBLEM.kinds[reader], PROBLEM.kinds[read])


def _readers(op: int) -> list[int]:
    return [other for other, parents in enumerate(PROBLEM.parents) if op in parents]


KINDS = sorted(set(PROBLEM.kinds))
FAULTS: dict[str, Callable[[Random], Case]] = {
    "one op": lambda random: (PROBLEM, needs(random.randrange(N))),
    "a chain of 3": lambda random: (PROBLEM, needs(*chain_of(PROBLEM, 3, random))),
    "5 scattered ops": lambda random: (PROBLEM, needs(*scattered(PROBLEM, 5, random))),
    "5 scattered, 30 % hidden": lambda random: (
        PROBLEM,
        whole_fails(PROBLEM, hidden(needs(*scattered(PROBLEM, 5, random)), random.randrange(99))),
    ),
    "any op of a kind": lambda random: (PROBLEM, any_of_each(PROBLEM, random.choice(KINDS))),
    "a kind that occurs once": _once,
    "any ops of two kinds": lambda random: (PROBLEM, any_of_each(PROBLEM, *random.sample(KINDS, 2))),
    "any op of a kind that reads another": _pattern,
    "the op that is named": lambda random: _hinted(random, lambda op: ()),
    "the named op and what it reads": lambda random: _hinted(random, lambda op: PROBLEM.parents[op][:1]),
    "the named op and what reads it": lambda random: _hinted(random, lambda op: _readers(op)[:1]),
    "any op of the kind that is named": lambda random: (
        replace(PROBLEM, hints=(SOFTMAXES,)),
        any_of_each(PROBLEM, "softmax"),
    ),
    "one op of the kind that is named": lambda random: (
        replace(PROBLEM, hints=(SOFTMAXES,)),
        needs(random.choice(SOFTMAXES)),
    ),
    "one op, another is named": lambda random: (
        replace(PROBLEM, hints=((random.randrange(N),),)),
        needs(random.randrange(N)),
    ),
    "one op, another kind is named": lambda random: (
        replace(PROBLEM, hints=(SOFTMAXES,)),
        needs(random.randrange(N)),
    ),
}


def print_table(head: list[str], rows: list[list[object]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print("|", " | ".join(map(str, row)), "|")
    print()


if __name__ == "__main__":
    planted_table()
    ablation_table()
