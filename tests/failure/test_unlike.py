"""In which respects another failure is not the sought one, and the option that is named."""

from dataclasses import replace

import pytest

from minifier.failure import Failure, Fingerprint, Frame, Kind, Stage
from minifier.failure.unlike import advice, unlike

SOUGHT = Fingerprint(
    Stage.COMPILE,
    Kind.EXCEPTION,
    ("acme.LoweringError",),
    site=Frame("acme.lower", "lower"),
    message="no lowering for tanh (n)",
)


def seen(**changes) -> Failure:
    return Failure(replace(SOUGHT, **changes), "Type", "a message")


@pytest.mark.parametrize(
    ("sought", "other", "said"),
    [
        (
            SOUGHT,
            seen(message="no lowering for tan"),
            "- message  no lowering for tanh (n)\n+ message  no lowering for tan\n"
            "If both are the same failure to you, give --match 'no lowering for tan'.",
        ),
        (
            SOUGHT,
            seen(types=("ValueError",), site=None, message="bad"),
            "- type                acme.LoweringError\n+ type                ValueError\n"
            "- message             no lowering for tanh (n)\n+ message             bad\n"
            "- backend's function  acme.lower.lower\n"
            "If both are the same failure to you, give --match REGEX, which both messages match.",
        ),
        (
            SOUGHT,
            seen(kind=Kind.TIMEOUT),
            "- kind  exception\n+ kind  timeout\nIf it only takes longer here, give --timeout SECONDS.",
        ),
        (
            Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values"),
            None,
            "- stage    compare\n- kind     wrong-result\n- message  values\n+ failure  none\n"
            "If smaller differences count for you, give --compare strict, or --rtol and --atol.",
        ),
        (
            Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGSEGV"),
            None,
            "- stage    run\n- kind     signal\n- message  SIGSEGV\n+ failure  none",
        ),
    ],
)
def test_what_differs_and_what_helps(sought, other, said):
    assert "\n".join(filter(None, [unlike(sought, other), advice(sought, other)])) == said


def test_what_does_not_count_is_no_difference():
    assert unlike(SOUGHT, seen()) == "" == unlike(SOUGHT, seen(stage=Stage.RUN), any_stage=True)
    assert unlike(SOUGHT, seen(stage=Stage.RUN)) == "- stage  compile\n+ stage  run"


def test_a_pattern_matches_both_messages_whatever_they_hold():
    said = advice(replace(SOUGHT, message="it's [odd] (1)"), seen(message="that it's [odd] (2)"))
    assert said.endswith("give --match 'it.s \\[odd\\] \\('.")


def test_a_pattern_is_short():
    said = advice(replace(SOUGHT, message="word " * 100), seen(message="a " + "word " * 100))
    assert said.endswith(f"give --match '{('word ' * 16).strip()}'.")
