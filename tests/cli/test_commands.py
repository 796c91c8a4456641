"""check, reduce, backends, passes; budgets and Ctrl-C."""

import json
import os
import signal
from pathlib import Path

import pytest
from clock import state_of, wait_until
from failing_scripts import SLOW
from layers import sampled
from vocabulary import Held

import minifier
from minifier.reduction.passes.table import TABLE

pytestmark = pytest.mark.timeout(240)
WAITS = """
import pathlib
import signal
import torch

print("run")
if {is_again}:
    torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(2))
mark = pathlib.Path({mark!r})
if mark.exists() or not {is_again}:
    mark.with_suffix(".waits").touch()
    signal.pause()
mark.touch()
"""
FOOTER = "\n\n# RuntimeError: no lowering for tanh\n# torch 2.13.0, Python 3.11\n"


def test_check_ends_a_script_that_does_not_end(project):
    project.write("import signal\nopen('left.txt', 'w').close()\nsignal.pause()" + FOOTER, "repro.py")
    assert project.minify("check", "--timeout", "1", "--trust", ".").code == 125  # and no file is left in the folder


def test_a_budget_of_probes_ends_it_with_the_best_so_far_and_it_can_go_on(minify, project):
    done = minify(SLOW, given=["--max-probes", "7"])
    assert done.code == 3, done.stderr
    result = done.result
    assert result["status"] == "stopped" and "budget" in result["stopped_because"] and result["one_minimal"] is False
    assert result["verified"]["same"] == result["verified"]["runs"] == 1 and result["probes"]["total"] <= 8
    assert 3 <= result["ops_after"] < result["ops_before"] and "not proved minimal" in done.stderr
    spent = len((project.out / "journal.jsonl").read_text().splitlines())

    again = project.minify("reduce", project.out)
    assert again.code == 0 and again.ops[1] == 3 and again.result["one_minimal"] is True
    lines = [json.loads(line) for line in (project.out / "journal.jsonl").read_text().splitlines()]
    asked = [line["key"] for line in lines if line["phase"] not in ("check", "simplify", "again")]
    assert len(lines) > spent and len(asked) == len(set(asked)), "a probe of the journal was made again"


@pytest.fixture
def reducing(project):
    """A run that stands still in the middle of its search, and what lets it go on."""
    project.write(SLOW)
    held = Held(project, '"prefix"', 2)
    process = project.start_warm("run", "--out", project.out, "failing.py", MINIFY_EXPLAIN="1", **held.environment)
    held.wait(process)
    return process, held


@pytest.mark.parametrize("send", sampled([os.killpg, os.kill]), ids=["group", "process"])
def test_an_interrupt_ends_the_reduction_with_the_best_so_far(project, reducing, send):
    process, held = reducing
    send(process.pid, signal.SIGINT)
    wait_until(lambda: "interrupted: ending the search" in process.printed_errors(), process=process)
    held.release()
    done = project.finish(process, 120)
    assert done.code == 3 and "verifying the repro" in done.stderr, done.stderr
    assert "interrupted" in done.result["stopped_because"] and done.result["verified"]["same"] == 3
    assert 3 <= done.ops[1] < done.ops[0] and project.litter() == []
    assert "minifier/" not in done.stderr
    phases = json.loads((project.out / "finished.json").read_text())["phases"]
    assert "verifying" in phases and not {"explaining", "controls"} & set(phases), "nothing else is begun"


def test_a_second_interrupt_ends_the_run_without_verification(project, reducing):
    """The reduction stands still meanwhile. The first is answered after the time that it has to end by itself: a
    second press then is not the same press."""
    process, held = reducing
    (reduction,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    os.kill(reduction, signal.SIGSTOP)
    wait_until(lambda: state_of(reduction) == "T")
    held.release()
    os.killpg(process.pid, signal.SIGINT)
    wait_until(lambda: "interrupted: ending the search" in process.printed_errors(), process=process)
    os.killpg(process.pid, signal.SIGINT)
    os.kill(reduction, signal.SIGCONT)
    done = project.finish(process, 60)
    assert done.code == 130 and "`minify reduce" in done.stderr, done.stderr
    assert not (project.out / "repro.py").exists() and (project.out / "case").exists() and project.litter() == []


@pytest.mark.parametrize(("send", "is_again"), [(os.kill, False), (os.killpg, True)])
def test_an_interrupt_while_the_script_runs_or_runs_again_to_be_compared(project, send, is_again):
    mark = project.root / "mark"
    project.write(WAITS.format(mark=str(mark), is_again=is_again))
    process = project.start_warm("run", "--out", project.out, "failing.py")
    wait_until(mark.with_suffix(".waits").exists, process=process)
    send(process.pid, signal.SIGINT)
    done = project.finish(process, 60)
    assert done.code == 130 and "interrupted" in done.stderr and "minifier/" not in done.stderr, done.stderr
    assert ("was interrupted before a backend call had failed" in done.stderr) or not is_again
    assert done.stdout == "run\n" and not project.out.exists() and project.litter() == []


def test_backends_lists_what_torch_finds_and_whence(project):
    done = project.minify("backends")
    assert done.code == 0
    (row,) = [line for line in done.stdout.splitlines() if "faulty_installed" in line]
    assert "minifier_backends.installed" in row and "minifier-backends 0.1.0" in row
    assert any(line.split()[:1] == ["inductor"] for line in done.stdout.splitlines())
    assert "oddlib" not in done.stdout


def test_passes_lists_the_table(refusing):
    done = refusing.minify("passes")
    assert done.code == 0 and all(name in done.stdout and sentence in done.stdout for name, sentence in TABLE)


@pytest.mark.parametrize("command", [[], ["run"]])
def test_help_is_there_and_needs_no_torch(project, command):
    project.write("raise ImportError('torch was imported')", "torch.py")
    done = project.minify(*command, "--help", path=(project.folder,), fresh=True)
    assert done.code == 0 and "Usage" in done.stdout and done.stderr == ""


def test_without_torch_one_message_says_what_to_do(project):
    project.write("raise ImportError('no torch here')", "torch.py")
    done = project.run("print('never run')\n", path=(project.folder,), fresh=True)
    assert done.code == 2 and "pip install torch" in done.stderr and "Traceback" not in done.stderr + done.stdout


def test_the_version_is_printed(refusing):
    assert minifier.__version__ in refusing.minify("--version").stdout
