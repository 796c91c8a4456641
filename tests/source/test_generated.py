"""Random scripts with a planted fault are reduced to the fault and what it needs, in few probes."""

import math
import os

import pytest

from minifier.repro.source.statement_tree import Tree
from tests.layers import SOAK, sampled
from tests.source.generated_scripts import DECOY, FAULTS, Script
from tests.source.in_process_lab import outcome, reduced, run

SEED = int(os.environ.get("SCRIPTS_SEED", "1000"))
SCRIPTS = int(os.environ.get("SCRIPTS", "100"))  # `SCRIPTS=500 make soak PYTEST_ARGS=tests/source/test_generated.py`
AT_ONCE = 20


def drawn(seed, size=8):
    fault = FAULTS[seed % len(FAULTS)]
    text = Script(seed, fault, size).text()
    assert outcome(text, fault) == fault.error and outcome(text, None) == "", text
    return text, fault


def most_probes(before, after):
    """The probes that the reduction of so many statements may take."""
    return 4 * math.log2(math.comb(before, after)) + 3 * after + 20


def judged(seed):
    """Reduce a script; return a line about it, and what is wrong with its repro."""
    text, fault = drawn(seed)
    result, lab = reduced(text, fault)
    before = len(Tree(text, lab.frozen).statements)
    most = most_probes(before, result.statements)
    calls, _ = run(result.source, fault)
    wrong = {
        "not minimal": not result.minimal,
        "another failure": outcome(result.source, fault) != fault.error,
        "the planted call is not the one that fails": not calls or not fault.fails(calls),
        "the call of the second failure is left": DECOY in result.source,
        "fails in eager mode": outcome(result.source, None) != "",
        "larger than a person's": result.statements > fault.most,
        "lacks what the fault needs": not all(need in result.source for need in fault.needs),
        "too many probes": lab.total > most,
    }
    line = f"{seed} {fault.name}: {before} -> {result.statements} statements, {lab.total} of {most:.0f} probes"
    return line, [f"{what}:\n{result.source}" for what, is_so in wrong.items() if is_so]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", sampled(range(len(FAULTS)), 3))
def test_what_is_left_is_what_a_person_would_keep(seed):
    line, wrong = judged(seed)
    print(line)
    assert not wrong


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", [pytest.param(first, marks=SOAK) for first in range(SEED, SEED + SCRIPTS, AT_ONCE)])
def test_many_scripts_are_reduced_to_what_a_person_would_keep(first):
    print(f"SCRIPTS_SEED={first}")
    found = [judged(seed) for seed in range(first, first + AT_ONCE)]
    print(*(line for line, _ in found), sep="\n")
    assert not [(line, wrong) for line, wrong in found if wrong]
