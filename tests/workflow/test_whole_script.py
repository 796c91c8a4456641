"""What a reduced script runs, how long, and which data it reads."""

import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from minifier.capturing.script import Program
from minifier.data.failure import Failure, Fingerprint, Frame, Kind, Stage
from minifier.data.settings import Settings
from minifier.errors import NoRepro
from minifier.flow.whole_script import is_command, named_code, reduce_to_script, time_limit
from minifier.repro.source.reduce_script import ReducedScript, shows_failure_of_call

INSTALLED = Path(sysconfig.get_path("scripts"), "pytest")
FAILURE = Failure(Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("ValueError",)), "ValueError", "no", "")


@pytest.mark.parametrize(("asked", "slowest", "limit"), [(None, 0.3, 120.0), (None, 40.0, 400.0), (30.0, 40.0, 30.0)])
def test_an_interpreter_has_the_time_that_the_script_needs(asked, slowest, limit):
    reduced = ReducedScript("fail()\n", 2, 1, True, (), 1.0, slowest, FAILURE, (), ())
    assert time_limit(Settings(timeout=asked), reduced) == limit


def failure_at(function, message="no", kind="ValueError"):
    raising = Frame("torch.fx.graph_module", function)
    return Fingerprint(Stage.RUN, Kind.EXCEPTION, (kind,), raising, message=message)


@pytest.mark.parametrize(
    ("shown", "is_same"),
    [
        (failure_at("__call__"), True),
        (failure_at("forward"), True),
        (failure_at("forward", "yes"), False),
        (failure_at("forward", kind="TypeError"), False),
    ],
)
def test_a_run_of_the_script_shows_the_captured_failure_wherever_it_is_raised(shown, is_same):
    assert shows_failure_of_call(failure_at("__call__"), replace(shown, stage=Stage.COMPILE)) is is_same


def test_an_end_without_an_exception_is_told_by_more_than_its_types():
    sought, shown = (Fingerprint(Stage.RUN, kind) for kind in (Kind.SIGNAL, Kind.EXIT))
    assert not shows_failure_of_call(sought, shown)


@pytest.mark.parametrize("program", [Program("pytest", is_module=True), Program("cProfile", is_module=True), INSTALLED])
def test_no_repro_only_calls_a_command(program):
    program = program if isinstance(program, Program) else Program(str(program))
    assert is_command(program)
    with pytest.raises(NoRepro, match="installed"):
        reduce_to_script(program, None, None, None)


def test_a_script_of_the_user_is_no_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("from model import train\n\ntrain()\n")
    assert not any(map(is_command, (Program("train.py"), Program("train", is_module=True), Program("gone.py"))))
    assert not is_command(Program("torch.distributed.run", is_module=True)), "torch itself may be at fault"


def test_a_repro_that_runs_a_file_of_the_user_is_found(tmp_path):
    path = tmp_path / "test_models.py"
    path.write_text("")
    text = f"import sys\n\nsys.argv[1:] = ['-q', {str(path)!r} + '::test_x', '{path}::test_x', 'gone.py', '\\0.py']\n"
    assert named_code(text) == [str(path)]
