"""What is logged or warned of during a backend call."""

import logging
import warnings

import pytest
import torch

from minifier.data.failure import Stage
from minifier.process.logs import let_through, overheard
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import logging, warnings
import torch
import oddlib.deadly

logging.getLogger("mine").warning("before")
f = torch.compile(lambda x: torch.cos(torch.tanh(x)), backend="oddlib_grumbles", options=OPTIONS)
for i in range(3):
    f(torch.full((3,), float(i)))
warnings.warn("after")
"""


def script(stage, how):
    return SCRIPT.replace("OPTIONS", repr({"stage": stage, "how": how, "call": 2, "empties": stage == "run"}))


@pytest.mark.parametrize(("stage", "how"), [("compile", "WARNING"), ("run", "warning")])
def test_what_was_logged_during_a_backend_call_is_told_and_no_failure(bureau, stage, how):
    captured = bureau.capture(script(stage, how))
    assert captured.failing == () and captured.end.status == 0
    (line,) = captured.logged
    assert "no lowering for tanh at 0x" in line and "before" not in line
    assert line.startswith("WARNING RuntimeWarning: " if how == "warning" else f"{how} oddlib.lowering: ")


def test_a_line_that_matches_at_run_time_is_a_failure_of_that_call(bureau):
    captured = bureau.capture(script("run", "WARNING"), match_log="falling back")
    (failing,) = captured.failing
    assert (failing.stage, failing.call) == (Stage.RUN, 2) and failing.inputs_lost, "the call empties its inputs"
    seen, case, _ = bureau.capture_again(captured, match_log="falling back")
    assert seen.failure.fingerprint == failing.failure.fingerprint and case.calls == 2
    assert torch.equal(StoredTensors(case.tensors).get(case.inputs[0].source.key), torch.ones(3))


def test_collecting_leaves_everything_as_it_was(capsys, caplog):
    before = logging.Logger.handle, warnings._showwarnmsg
    alone = logging.getLogger("alone")
    alone.propagate = False
    lines = []
    with overheard(lines.append):
        logging.getLogger("acme").warning("one %s", "two")
        logging.getLogger("acme").info("not this")
        alone.error("three")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("four", UserWarning, stacklevel=1)
            warnings.simplefilter("ignore")
            warnings.warn("five", UserWarning, stacklevel=1)
    assert [each.line for each in lines] == ["WARNING acme: one two", "ERROR alone: three", "WARNING UserWarning: four"]
    assert (logging.Logger.handle, warnings._showwarnmsg) == before
    assert "one two" in caplog.text, "it went on to where it goes"


def test_what_the_script_puts_around_logging_meanwhile_stays():
    lines, seen, original = [], [], logging.Logger.handle
    with overheard(lines.append):
        ours = logging.Logger.handle

        def of_script(logger, record):
            seen.append(record.getMessage())
            ours(logger, record)

        logging.Logger.handle = of_script
        logging.getLogger("acme").warning("within")
    try:
        assert logging.Logger.handle is of_script
        logging.getLogger("acme").warning("afterwards")
    finally:
        logging.Logger.handle = original
    assert seen == ["within", "afterwards"] and [each.message for each in lines] == ["within"]


def test_a_record_whose_arguments_do_not_fit_is_heard():
    alone = logging.Logger("alone")  # pytest's own handlers raise on such a record
    alone.addHandler(logging.NullHandler())
    lines = []
    with overheard(lines.append):
        alone.warning("%d things", "many")
    assert [each.message for each in lines] == ["%d things"]


def test_a_line_that_the_script_let_through_is_let_through_again():
    logger = logging.getLogger("acme.lowering")
    let_through("INFO acme.lowering: gelu: running on host")
    try:
        assert logger.isEnabledFor(logging.INFO) and not logging.getLogger("acme").isEnabledFor(logging.INFO)
    finally:
        logger.setLevel(logging.NOTSET)
    let_through("UserWarning: no level at all")
