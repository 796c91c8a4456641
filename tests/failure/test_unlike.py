"""In which respects another failure is not the sought one, and the option that is named."""

import re
from dataclasses import replace

import pytest

from minifier.data.failure import Failure, Fingerprint, Frame, Kind, Stage
from minifier.data.failure.likeness import advice, unlike

SOUGHT = Fingerprint(
    Stage.COMPILE,
    Kind.EXCEPTION,
    ("acme.LoweringError",),
    site=Frame("acme.lower", "lower"),
    message="no lowering for tanh (n)",
)


def seen(**changes) -> Failure:
    return Failure(replace(SOUGHT, **changes), "Type", "a message")


WRONG = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values")


@pytest.mark.parametrize(
    ("sought", "other", "differing", "option"),
    [
        (SOUGHT, seen(message="no lowering for tan"), {"message"}, "--match 'no lowering for tan'"),
        (
            SOUGHT,
            seen(types=("ValueError",), site=None, message="bad"),
            {"type", "message", "backend's function"},
            "--match REGEX",
        ),
        (SOUGHT, seen(kind=Kind.TIMEOUT), {"kind"}, "--timeout"),
        (WRONG, None, {"stage", "kind", "message", "failure"}, "--compare strict"),
        (replace(WRONG, stage=Stage.RUN, kind=Kind.SIGNAL), None, {"stage", "kind", "message", "failure"}, ""),
    ],
)
def test_what_differs_and_the_option_that_helps(sought, other, differing, option):
    lines = unlike(sought, other).splitlines()
    assert {re.split("  +", line[2:])[0] for line in lines} == differing
    said = advice(sought, other)
    assert option in said and bool(said) is bool(option)


def test_what_does_not_count_is_no_difference():
    assert unlike(SOUGHT, seen()) == "" == unlike(SOUGHT, seen(stage=Stage.RUN), any_stage=True)
    assert unlike(SOUGHT, seen(stage=Stage.RUN)) == "- stage  compile\n+ stage  run"


def test_a_pattern_matches_both_messages_whatever_they_hold():
    messages = "it's [odd] (1)", "that it's [odd] (2)"
    said = advice(replace(SOUGHT, message=messages[0]), seen(message=messages[1]))
    pattern = re.search("--match '([^']*)'", said)[1]
    assert pattern and all(re.search(pattern, message) for message in messages)


def test_a_pattern_is_short():
    said = advice(replace(SOUGHT, message="word " * 100), seen(message="a " + "word " * 100))
    assert 20 < len(re.search("--match '([^']*)'", said)[1]) < 100
