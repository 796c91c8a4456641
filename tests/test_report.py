"""report.md and result.json for kinds of failure that raise nothing."""

from dataclasses import replace

import pytest
from case_samples import small_case

from minifier.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.reduction.stage import Summary
from minifier.report.markdown import report
from minifier.report.outcome import Outcome, Status, result_data

WRONG = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values")
DIFFERENCES = (
    Difference(Aspect.VALUES, "output 0", "output 0 is off by 0.02, eager by 1e-08", 0.0213456, 1e-8, 2e-8),
    Difference(Aspect.DTYPE, "output 1", "output 1 is of type float64, in eager of float32 | or so"),
)


def outcome(failure, **more):
    case = replace(small_case(), failure=failure, **more)
    summary = Summary(
        9, 1, 1, 6, {"total": 12}, True, "", 1.0,
        phases=(("prefix", 5, 9, 4),), notes=("a probe failed by itself: no space left",),
    )  # fmt: skip
    return Outcome(Status.NO_REPRO, case, case, summary, None, None, "", 0.0, 1.0, match="a.*b")


def test_a_comparison_is_a_table_with_the_error_of_each_output():
    failure = Failure(WRONG, "wrong-result", DIFFERENCES[0].sentence, differences=DIFFERENCES)
    text = report(outcome(failure))
    assert text.startswith("# Compiled and eager differ (values): torch.compile backend `oddlib_tanh`\n")
    assert "| output 0 | values | 0.0213 | 1e-08 | 2e-08 |  |\n" in text
    assert "| output 1 | dtype |  |  |  | output 1 is of type float64, in eager of float32 \\| or so |\n" in text


def test_phases_and_notes_are_shown():
    text = report(outcome(small_case().failure))
    assert "| prefix | 5 | 9 | 4 |\n" in text and "- a probe failed by itself: no space left\n" in text


def test_the_stack_of_a_death_is_shown_and_its_rate():
    stack = 'Current thread 0x1 (most recent call first):\n  File "lowering.py", line 3 in lower'
    failure = Failure(Fingerprint(Stage.COMPILE, Kind.SIGNAL, message="SIGSEGV"), "signal", "SIGSEGV", stack)
    text = report(outcome(failure, rate=0.3))
    assert "lowering.py" in text and "about 30% of all attempts" in text and "`signal: SIGSEGV`" in text


def test_where_compiled_and_eager_part_is_shown_if_it_is_known():
    given = outcome(small_case().failure)
    parts = (("torch.tanh", "off by 0.02"),)
    text = report(replace(given, summary=replace(given.summary, parting=parts)))
    assert "## Ops where compiled and eager part\n\n- `torch.tanh`: off by 0.02\n" in text
    assert "compiled and eager part" not in report(given)


@pytest.mark.parametrize("field", ["level", "template", "match", "match_log"])
def test_the_result_says_what_check_needs(field):
    wanted = {"level": "dynamo", "template": None, "match": "a.*b", "match_log": None}
    assert result_data(outcome(small_case().failure))[field] == wanted[field]
