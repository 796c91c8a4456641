"""`minify check` by the result.json beside a repro: gone, still there, or something else."""

import json

import pytest
from vocabulary import source_of

from minifier.data.case.serial import pack
from minifier.data.failure import Fingerprint, Frame, Kind, Stage
from minifier.errors import UsageError
from minifier.flow.cli.running import GONE, SOMETHING_ELSE, STILL_THERE, check_command

pytestmark = pytest.mark.timeout(60)

VALUES = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="values")
HANG = Fingerprint(Stage.COMPILE, Kind.TIMEOUT, message="no end")
SIGNAL = Fingerprint(Stage.BACKWARD_COMPILE, Kind.SIGNAL, message="SIGABRT")
FALLBACK = Fingerprint(Stage.COMPILE, Kind.SILENT_FALLBACK, message="<number> ops run in eager")
PLACE = Frame("__main__", "<module>")
RAISED = Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("ValueError",), PLACE, message="no lowering")
AT_RUN = Fingerprint(Stage.RUN, Kind.EXCEPTION, ("ValueError",), PLACE, message="no lowering")
WARNS = "import logging\nlogging.getLogger('acme').warning('{}')"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("text", "sought", "more", "code"),
    [
        ("assert False, 'Tensor-likes are not close!'", VALUES, {}, STILL_THERE),
        ("assert True", VALUES, {}, GONE),
        (
            "raise AssertionError(\"The values for attribute 'dtype' do not match: a != b.\")",
            VALUES,
            {},
            SOMETHING_ELSE,
        ),
        ("import signal; signal.pause()", HANG, {}, STILL_THERE),
        ("raise ValueError('no')", HANG, {}, SOMETHING_ELSE),
        ("import os; os.abort()", SIGNAL, {}, STILL_THERE),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", SIGNAL, {}, SOMETHING_ELSE),
        (WARNS.format("12 ops run in eager"), FALLBACK, {}, STILL_THERE),
        (WARNS.format("12 nodes: eager"), FALLBACK, {"match_log": "nodes: eager"}, STILL_THERE),
        ("raise ValueError('no lowering')", AT_RUN, {}, STILL_THERE),
        ("raise ValueError('no lowering')", RAISED, {"template": "call_backend"}, STILL_THERE),
        ("raise ValueError('no lowering')", RAISED, {"template": "compile_function"}, SOMETHING_ELSE),
        ("raise KeyError('no lowering of erf')", AT_RUN, {"match": "lowering of \\w+"}, STILL_THERE),
        ("raise KeyError('no lowering of erf')", AT_RUN, {"match": "lowering of tanh"}, SOMETHING_ELSE),
    ],
)
def test_check_goes_by_what_was_sought(text, sought, more, code, tmp_path, capsys):
    (tmp_path / "repro.py").write_text(source_of(text))
    (tmp_path / "result.json").write_text(json.dumps({"failure": {"fingerprint": pack(sought)}, **more}))
    assert check_command(tmp_path, 5, trust=True) == code, capsys.readouterr()


@pytest.mark.usefixtures("processes")
def test_check_says_what_the_comparison_said(tmp_path, capsys):
    (tmp_path / "repro.py").write_text("assert False, 'Tensor-likes are not close!\\n\\nMismatched elements: 6 / 6'")
    (tmp_path / "result.json").write_text(json.dumps({"failure": {"fingerprint": pack(VALUES)}}))
    check_command(tmp_path, 20, trust=True)
    assert "values (Tensor-likes are not close! Mismatched elements: 6 / 6)" in capsys.readouterr().out


@pytest.mark.parametrize("damaged", ["{", "{}", '{"failure": {"fingerprint": 3}}', '{"failure": 1, "template": "no"}'])
def test_a_damaged_result_is_said(damaged, tmp_path):
    (tmp_path / "repro.py").write_text("")
    (tmp_path / "result.json").write_text(damaged)
    with pytest.raises(UsageError, match="is damaged"):
        check_command(tmp_path, 20, trust=True)


FOOTER = "\n\n# RuntimeError: no lowering for tanh\n# torch 2.13.0, Python 3.11\n"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("print('fine')", GONE, "gone"),
        ("raise RuntimeError('no lowering for tanh')", STILL_THERE, "still there"),
        ("raise RuntimeError('no lowering for erf')", SOMETHING_ELSE, "no lowering for erf"),
        ("raise ValueError('no lowering for tanh')", SOMETHING_ELSE, "ValueError"),
        ("import surely_missing_module", SOMETHING_ELSE, "surely_missing_module"),
        ("def f(:", SOMETHING_ELSE, ""),
        ("import os; os._exit(9)", SOMETHING_ELSE, "9"),
    ],
)
def test_check_of_a_script_alone_goes_by_its_last_comment(text, code, said, tmp_path, capsys):
    (tmp_path / "repro.py").write_text(text + FOOTER)
    assert check_command(tmp_path / "repro.py", 20, trust=True) == code
    told = capsys.readouterr()
    assert said in told.out + told.err
