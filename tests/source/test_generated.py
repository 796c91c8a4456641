"""Random scripts with a planted fault are reduced to the fault and what it needs."""

import pytest

from tests.layers import SOAK
from tests.source.generated_scripts import FAULTS, Script
from tests.source.in_process_lab import outcome, reduced, smaller_set

QUICK, SOAKED = range(3), range(100, 114)


def drawn(seed, size=8):
    fault = FAULTS[seed % len(FAULTS)]
    text = Script(seed, fault, size).text()
    assert outcome(text, fault) == "Refused" and outcome(text, None) == ""
    return text, fault


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [*QUICK, *(pytest.param(seed, marks=SOAK) for seed in SOAKED)])
def test_what_is_left_is_what_a_person_would_keep(seed):
    text, fault = drawn(seed)
    result, _ = reduced(text, fault)
    assert result.minimal
    assert result.statements <= fault.most, result.source
    assert all(need in result.source for need in fault.needs), result.source
    assert outcome(result.source, fault) == "Refused" and outcome(result.source, None) == ""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=SOAK) for seed in (224, 245, 269, 298, 305)])
def test_no_smaller_set_of_statements_shows_the_fault(seed):
    text, fault = drawn(seed, size=2)
    result, _ = reduced(text, fault)
    assert smaller_set(text, fault, result.statements) is None
