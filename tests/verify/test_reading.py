"""What the end of a script is taken for."""

import json
import textwrap
from dataclasses import replace

import pytest
import torch

from minifier.data.failure import Aspect, Fingerprint, Kind, Stage, same
from minifier.data.failure.observed import describe, text
from minifier.repro.verify import Conditions, run_script
from minifier.repro.verify.verdict import End, failure_shown

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("processes")]


def sought(aspect, kind=Kind.WRONG_RESULT):
    return Fingerprint(Stage.COMPARE, kind, message=aspect.value)


def run(source, tmp_path, wanted=None, **options):
    script = tmp_path / "repro.py"
    script.write_text(textwrap.dedent(source))
    return run_script(script, Conditions(wanted, options.pop("timeout", 30), **options))


def shows(done, wanted):
    return Conditions(wanted, 30).are_met(done)


def shown_by(call, tmp_path, wanted):
    """What a script that ends with this call's exception would be read as."""
    try:
        call()
    except Exception as error:
        record = {"links": describe(error), "text": text(error)}
        (tmp_path / "seen.json").write_text(json.dumps(record))
    return failure_shown(End(1, "", 1.0, tmp_path), wanted)


close = torch.testing.assert_close
one, two = torch.ones(2, 3), torch.full((2, 3), 2.0)
COMPARED = {
    "values": (lambda: close(two, one), Aspect.VALUES),
    "one number": (lambda: close(two[0, 0], one[0, 0]), Aspect.VALUES),
    "integers": (lambda: close(two.long(), one.long()), Aspect.VALUES),
    "bools": (lambda: close(one > 0, one < 0), Aspect.VALUES),
    "Python numbers": (lambda: close(2.0, 1.0), Aspect.VALUES),
    "one of several": (lambda: close((one, two), (one, one)), Aspect.VALUES),
    "nan": (lambda: close(one * float("nan"), one), Aspect.NON_FINITE),
    "nan in one number": (lambda: close(one[0, 0] * float("nan"), one[0, 0]), Aspect.NON_FINITE),
    "infinite": (lambda: close(one / 0, one), Aspect.NON_FINITE),
    "minus infinite": (lambda: close(-one / 0, one), Aspect.NON_FINITE),
    "dtype": (lambda: close(one.double(), one), Aspect.DTYPE),
    "shape": (lambda: close(one.t(), one), Aspect.SHAPE),
    "stride": (lambda: close(one.t().contiguous().t(), one, check_stride=True), Aspect.STRIDE),
    "layout": (lambda: close(one.to_sparse(), one), Aspect.STRIDE),
    "device": (lambda: close(one.to("meta"), one), Aspect.DEVICE),
    "fewer": (lambda: close((one,), (one, one)), Aspect.STRUCTURE),
    "None": (lambda: close((None, one), (one, one)), Aspect.STRUCTURE),
}


@pytest.mark.parametrize("name", COMPARED)
def test_what_assert_close_says_tells_the_aspect(name, tmp_path):
    call, aspect = COMPARED[name]
    kind = Kind.NON_FINITE if aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    seen = shown_by(call, tmp_path, sought(Aspect.VALUES))
    assert seen is not None and seen.fingerprint == sought(aspect, kind)


@pytest.mark.parametrize("aspect", [Aspect.MUTATION, Aspect.GRADIENT])
@pytest.mark.parametrize("name", ["values", "nan", "dtype"])
def test_inputs_and_gradients_are_what_their_scripts_compare(aspect, name, tmp_path):
    seen = shown_by(COMPARED[name][0], tmp_path, sought(aspect))
    assert seen is not None and seen.fingerprint == sought(aspect)


@pytest.mark.parametrize("name", ["dtype", "values", "shape"])
def test_any_aspect_of_a_result_is_the_failure(name, tmp_path):
    """assert_close names the dtype, where the search was for wrong values of the same result."""
    wanted = replace(sought(Aspect.VALUES), aspects=("dtype", "values"))
    seen = shown_by(COMPARED[name][0], tmp_path, wanted)
    assert same(wanted, seen.fingerprint) is (name != "shape")
    assert same(sought(Aspect.VALUES), seen.fingerprint) is (name != "shape")


@pytest.mark.parametrize(
    ("sentence", "aspect"),
    [
        ("the results do not share memory as in eager", Aspect.ALIASING),
        ("the result is written over the result of an earlier call", Aspect.OVERWRITTEN),
        ("eager raises, the compiled function does not", Aspect.NO_EXCEPTION),
        ("the compiled result differs from the eager one", Aspect.PREDICATE),
    ],
)
def test_an_assertion_of_the_script_tells_its_aspect(sentence, aspect, tmp_path):
    done = run(f"assert False, {sentence!r}", tmp_path, sought(aspect))
    assert shows(done, sought(aspect))
    assert not shows(done, sought(Aspect.VALUES))


def test_an_assertion_of_a_backend_is_no_comparison(tmp_path):
    (tmp_path / "acme.py").write_text("def check():\n    assert False, 'not close'\n")
    (tmp_path / "there").mkdir()
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import acme; acme.check()"
    done = run(script, tmp_path / "there", sought(Aspect.VALUES))
    assert done.failure.fingerprint.stage is Stage.RUN and done.failure.type == "AssertionError"


def test_another_exception_is_no_comparison(tmp_path):
    done = run("raise ValueError('Tensor-likes are not close!')", tmp_path, sought(Aspect.VALUES))
    assert done.failure.fingerprint.types == ("ValueError",) and not shows(done, sought(Aspect.VALUES))


def test_an_assertion_is_a_plain_exception_where_no_comparison_is_sought(tmp_path):
    wanted = Fingerprint(Stage.RUN, Kind.EXCEPTION, ("AssertionError",))
    assert run("assert False", tmp_path, wanted).failure.fingerprint.stage is Stage.RUN


HANG = Fingerprint(Stage.COMPILE, Kind.TIMEOUT, message="no end")
WAITS = ["while True: pass", "import signal; signal.pause()", "import ctypes; ctypes.CDLL(None).pause()"]


@pytest.mark.parametrize("wait", [*WAITS, "import ctypes; ctypes.PyDLL(None).pause()"])
def test_a_script_that_ends_its_own_hang_is_a_hang(wait, tmp_path):
    done = run(f"import faulthandler\nfaulthandler.dump_traceback_later(1, exit=True)\n{wait}", tmp_path, HANG)
    assert done.status == 1 and done.failure.fingerprint == HANG and done.failure.message == "no end after 1 s"


def test_a_script_that_has_to_be_killed_is_a_hang(tmp_path):
    done = run(WAITS[1], tmp_path, HANG, timeout=1)
    assert done.status is None and done.failure.fingerprint == HANG


def test_a_guard_that_is_not_needed_changes_nothing(tmp_path):
    done = run("import faulthandler\nfaulthandler.dump_traceback_later(20, exit=True)", tmp_path, HANG)
    assert (done.status, done.failure) == (0, None)


def test_the_words_of_a_guard_alone_are_no_hang(tmp_path):
    assert run("print('Timeout (0:00:20)!')", tmp_path, HANG).failure is None
    done = run("import os\nprint('Timeout (0:00:20)!', flush=True)\nos._exit(3)", tmp_path, HANG)
    assert done.failure.fingerprint.kind is Kind.EXIT


@pytest.mark.parametrize("stage", [Stage.COMPILE, Stage.RUN, Stage.BACKWARD_COMPILE, Stage.BACKWARD_RUN])
def test_a_death_is_at_the_stage_that_is_sought(stage, tmp_path):
    wanted = Fingerprint(stage, Kind.SIGNAL, message="SIGABRT")
    assert run("import os; os.abort()", tmp_path, wanted).failure.fingerprint == wanted


SPEAKS = """
    import logging, warnings
    logging.basicConfig(level=logging.INFO, format="")
    logging.getLogger("acme.lowering").{method}("%d ops run in eager", 12)
    warnings.warn("kernel {n} is slow")
"""
FELL_BACK = Fingerprint(Stage.COMPILE, Kind.SILENT_FALLBACK, message="<number> ops run in eager")


@pytest.mark.parametrize(
    ("method", "match_log", "found"),
    [
        ("warning", None, True),
        ("info", None, True),
        ("debug", None, False),
        ("error", "ERROR acme.*run in eager", True),
        ("warning", "ERROR acme.*run in eager", False),
        ("debug", "WARNING UserWarning: kernel 7", True),
        ("error", "kernel 8", False),
    ],
)
def test_a_fallback_is_what_is_logged_or_warned_about(method, match_log, found, tmp_path):
    done = run(SPEAKS.format(method=method, n=7), tmp_path, FELL_BACK, match_log=match_log)
    assert done.status == 0 and shows(done, FELL_BACK) is found


def test_a_logger_that_says_nothing_else_is_heard(tmp_path):
    text = (
        "import logging\nlogging.getLogger('a').propagate = False\nlogging.getLogger('a').warning('3 ops run in eager')"
    )
    assert shows(run(text, tmp_path, FELL_BACK), FELL_BACK)


def test_a_record_whose_arguments_do_not_fit_disturbs_nobody(tmp_path):
    done = run("import logging\nlogging.getLogger('a').warning('%d ops', 'no', 'number')", tmp_path, FELL_BACK)
    assert (done.status, done.failure) == (0, None)


def test_a_script_that_fails_has_not_only_fallen_back(tmp_path):
    done = run(textwrap.dedent(SPEAKS.format(method="warning", n=7)) + "raise ValueError('no')", tmp_path, FELL_BACK)
    assert done.failure.type == "ValueError" and not shows(done, FELL_BACK)


def links(*frames):
    found = [[module, function, "/somewhere/file.py", 1] for module, function in frames]
    return [
        {"type": "ValueError", "bases": [], "message": "no", "frames": [["__main__", "<module>", "r.py", 1], *found]}
    ]


ENGINE = ("torch.autograd.graph", "_engine_run_backward")
AOT = "torch._functorch._aot_autograd.runtime_wrappers"
UTILS = "torch._functorch._aot_autograd.utils"
STAGES = [
    ([], Stage.RUN),
    ([("torch._dynamo.output_graph", "_call_user_compiler")], Stage.COMPILE),
    ([("torch._dynamo.convert_frame", "_compile"), ("torch._dynamo.utils", "run_node")], Stage.COMPILE),
    ([("torch._dynamo.output_graph", "_call_user_compiler"), ENGINE], Stage.COMPILE),  # of AOTAutograd's joint graph
    ([ENGINE, ("torch._dynamo.convert_frame", "_compile")], Stage.BACKWARD_RUN),
    ([ENGINE], Stage.BACKWARD_RUN),
    ([ENGINE, (AOT, "_backward_impl")], Stage.BACKWARD_RUN),
    ([ENGINE, (AOT, "_backward_impl"), (AOT, "get_or_compile")], Stage.BACKWARD_COMPILE),
    ([ENGINE, (AOT, "_backward_impl"), ("backend", "lower")], Stage.BACKWARD_COMPILE),  # before torch 2.12
    (
        [ENGINE, (AOT, "_backward_impl"), (UTILS, "call_func_at_runtime_with_args"), ("backend", "run")],
        Stage.BACKWARD_RUN,
    ),
]


@pytest.mark.parametrize(("frames", "stage"), STAGES)
def test_frames_tell_the_stage(frames, stage, tmp_path):
    (tmp_path / "seen.json").write_text(json.dumps({"links": links(*frames), "text": ""}))
    assert failure_shown(End(1, "", 1.0, tmp_path), None).fingerprint.stage is stage


def test_the_observer_is_not_seen_by_the_script(tmp_path):
    text = "import os, sys\nassert not [p for p in sys.path + [os.environ.get('PYTHONPATH', '')] if 'observer' in p]"
    assert run(text, tmp_path).failure is None


def test_what_ends_a_script_that_has_opened_all_files_is_seen(tmp_path):
    source = "import os\nwhile True:\n    os.open(os.devnull, os.O_RDONLY)"
    seen = run(source, tmp_path).failure
    assert (seen.fingerprint.kind, seen.type) == (Kind.EXCEPTION, "OSError")


def test_a_message_does_not_name_the_folder_that_the_script_ran_in(tmp_path):
    done = run("raise RuntimeError(f'compiled from {__file__}, line 1')", tmp_path)
    assert done.failure.message == "compiled from repro.py, line 1"
