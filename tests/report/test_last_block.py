"""The last lines of a run: their rows, and how they stand on a screen."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyte
import pytest
from case_samples import call, graph, output, placeholder, small_case
from rich.console import Console as RichConsole
from screens import rows_of

from minifier.case import Level, Ref
from minifier.display.console import Console
from minifier.emit.repro import Repro
from minifier.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.reduction.summary import Summary
from minifier.report.last_block import last_block, lines_of
from minifier.report.outcome import Outcome, Status
from minifier.verify import ScriptRun, Verification

OTHERS = (
    {
        "type": "oddlib.LoweringError",
        "where": "oddlib.lower",
        "message": "no lowering for erf\nmore of it",
        "ops": 1,
        "near": True,
        "case": "others/1",
    },
)


def finished(failure: Failure | None = None, **changes) -> Outcome:
    """A run with a verified repro of one op."""
    case = small_case()
    case = replace(case, failure=failure or case.failure, script=replace(case.script, line=7))
    tanh = replace(call("tanh", "torch.tanh", Ref("x")), place="model.py:14")
    minimal = replace(case, graph=graph(placeholder("x"), tanh, output("tanh")), inputs=case.inputs[:1])
    run = ScriptRun(1, minimal.failure, "", 1.0)
    outcome = Outcome(
        Status.REDUCED,
        case,
        minimal,
        Summary(160, 1, 1, 6, {"total": 8}, True, "", 1.0),
        Repro("import torch\n", None),
        Verification((run,) * 3, 3, 1.0, ScriptRun(0, None, "", 1.0)),
        "",
        0.0,
        12.34,
        folder=Path.cwd() / "minify-out" / "failing-1",
    )
    return replace(outcome, **changes)


def screen_of(outcome: Outcome, columns: int) -> list[str]:
    """The rows of a terminal of so many columns."""
    text = io.StringIO()
    to = RichConsole(file=text, force_terminal=True, width=columns, color_system=None, _environ={"TERM": "xterm"})
    Console(to=to).final(outcome)
    screen = pyte.Screen(columns, 30)
    pyte.Stream(screen).feed(text.getvalue().replace("\n", "\r\n"))
    return rows_of(screen)


def rows(outcome: Outcome) -> dict[str, str]:
    return {row.label: row.text for row in last_block(outcome)}


WIDE = """\
failed    oddlib_tanh: RuntimeError compiling torch.tanh: no lowering for tanh
where     model.py:14
reduced   from 2 ops to 1, minimal; 8 probes, 12.3 s
verified  3 of 3 fresh interpreters show the same failure; with eager it passes
repro     minify-out/failing-1/repro.py
next      minify report --github minify-out/failing-1
"""
NARROW = """\
failed    oddlib_tanh: RuntimeError compiling torch.tanh: no
          lowering for tanh
where     model.py:14
reduced   from 2 ops to 1, minimal; 8 probes, 12.3 s
verified  3 of 3 fresh interpreters show the same failure;
          with eager it passes
repro     minify-out/failing-1/repro.py
next      minify report --github minify-out/failing-1
"""


@pytest.mark.parametrize(("columns", "screen"), [(100, WIDE), (60, NARROW)])
def test_the_block_on_a_screen(columns, screen):
    assert screen_of(finished(), columns) == screen.splitlines()


def test_no_word_is_broken_and_a_long_command_has_a_line_of_its_own():
    folder = Path.cwd() / "minify-out" / ("a-script-with-a-long-name" * 2)
    shown = screen_of(finished(folder=folder), 60)
    at = shown.index("next")
    assert "".join(shown[at + 1 :]) == f"minify report --github minify-out/{folder.name}"
    block = shown[:at]
    assert all(len(row) <= 60 and (row[:1].strip() or row.startswith(" " * 10)) for row in block)


@pytest.mark.parametrize(
    ("difference", "how"),
    [
        (
            Difference(Aspect.VALUES, "output 0", "output 0 is off", 0.04, 2e-7, None, 2.0),
            "wrong result of torch.tanh; output 0: relative error 0.02, eager's own 1e-07",
        ),
        (
            Difference(Aspect.DTYPE, "output 0", "output 0 is of type float64, in eager of float32"),
            "wrong dtype of the result of torch.tanh; output 0 is of type float64, in eager of float32",
        ),
    ],
)
def test_a_wrong_result_says_how_wrong_it_is(difference, how):
    fingerprint = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message=difference.aspect.value)
    failure = Failure(fingerprint, "wrong-result", difference.sentence, differences=(difference,))
    assert rows(finished(failure))["failed"] == f"oddlib_tanh: {how}"


def test_a_death_needs_no_message():
    failure = Failure(Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGSEGV"), "signal", "SIGSEGV")
    assert rows(finished(failure))["failed"] == "oddlib_tanh: SIGSEGV running torch.tanh"


def test_a_search_that_was_stopped_goes_on():
    outcome = finished()
    summary = replace(outcome.summary, one_minimal=False, stopped_because="the probe budget was used up")
    shown = rows(replace(outcome, status=Status.STOPPED, summary=summary))
    assert shown["reduced"].startswith("from 2 ops to 1, not proved minimal: the probe budget was used up; 8 probes")
    assert shown["next"] == "minify reduce minify-out/failing-1"


def test_without_a_repro_the_reason_is_told():
    outcome = finished(repro=None, verification=None, status=Status.NO_REPRO, reason="its graph cannot be saved")
    shown = rows(outcome)
    assert (shown["no repro"], shown["saved"]) == ("its graph cannot be saved", "minify-out/failing-1")
    assert "repro" not in shown and "verified" not in shown
    unreduced = rows(replace(outcome, minimal=None, summary=None))
    assert (unreduced["reduced"], unreduced["where"]) == ("not reduced", "the call in line 7 of failing")


@pytest.mark.parametrize("columns", [40, None])
def test_the_lines_of_a_reason_stay_lines(columns):
    reason = "the repro shows another failure\n- message  a\n+ message  b"
    outcome = finished(repro=None, verification=None, status=Status.NO_REPRO, reason=reason)
    lines = [line for line, _ in lines_of(last_block(outcome), columns)]
    at = next(i for i, line in enumerate(lines) if line.startswith("no repro"))
    assert "".join(lines[at:]).replace(" " * 10, " ").startswith("no repro  the repro shows another failure - mess")
    assert "          - message  a" in lines and "          + message  b" in lines


def test_other_failures_have_their_command():
    outcome = finished()
    shown = screen_of(replace(outcome, summary=replace(outcome.summary, others=OTHERS * 4)), 120)
    other = "also met  oddlib.LoweringError in oddlib.lower: no lowering for erf, raised at the same place by 1 op"
    assert shown.count(other) == 3 and shown.count("          minify reduce minify-out/failing-1/others/1") == 3
    assert "          1 other failure more in minify-out/failing-1/others" in shown


def test_a_reduced_script_is_run_without_torch_compile():
    outcome = finished()
    case = replace(outcome.case, level=Level.SOURCE, backend=replace(outcome.case.backend, name="torch.compile"))
    shown = rows(replace(outcome, case=case, minimal=replace(case, graph=graph(output()))))
    assert shown["failed"] == "torch.compile: RuntimeError: no lowering for tanh"
    assert shown["reduced"].startswith("from 160 statements to 1, ")
    assert shown["verified"].endswith("; without torch.compile it passes")
    of_as_many = rows(replace(outcome, case=case, summary=replace(outcome.summary, ops_after=160)))
    assert of_as_many["reduced"].startswith("160 statements, as many as before, ")


def test_a_path_outside_of_the_current_folder_is_absolute(tmp_path):
    assert rows(finished(folder=tmp_path))["repro"] == str(tmp_path / "repro.py")


def test_in_a_pipe_each_row_is_a_line():
    text = io.StringIO()
    Console(to=RichConsole(file=text, force_terminal=False, width=40)).final(finished())
    assert text.getvalue() == WIDE


def test_doubt_about_the_cause_has_a_row_and_proof_has_none():
    outcome = finished()
    doubtful = replace(outcome.summary, guilt="doubtful", cause="the ops at fault are not known")
    assert rows(replace(outcome, summary=doubtful))["cause"] == "the ops at fault are not known"
    assert "cause" not in rows(replace(outcome, summary=replace(doubtful, guilt="proved")))


def test_passes_that_only_showed_other_failures_have_a_row():
    outcome = finished()
    shown = rows(replace(outcome, summary=replace(outcome.summary, hidden=("dtypes", "values"))))
    assert shown["note"] == "every candidate of dtypes and values showed another failure, which may hide this one"


def test_another_failure_that_was_reduced_says_so():
    outcome = finished()
    other = {**OTHERS[0], "ops": 2, "reduced": True}
    shown = rows(replace(outcome, summary=replace(outcome.summary, others=(other,))))
    assert shown["also met"].endswith(", raised at the same place by 2 ops, reduced as well")
