"""What is seen on a terminal and in a pipe, and what programs read."""

import json
import os
import re
import subprocess
import sys
import zipfile

import pytest
from layers import sampled
from screens import in_a_terminal, without_figures

pytestmark = pytest.mark.timeout(150)

# A backend whose import writes to the terminal, where the reduction does it again.
CHATTY = """
import sys
import torch
from torch._dynamo import register_backend

print("chatty: imported", file=sys.stderr, flush=True)

@register_backend
def chatty(gm, example_inputs):
    if any(node.target in ("tanh", torch.tanh) for node in gm.graph.nodes):
        raise NotImplementedError("no tanh")
    return gm
"""
FAILING = """
import torch
import chatty

print("of the script")
try:
    torch.compile(lambda x: ((x.sin() + 1).cos() * 2).tanh().cos().sin(), backend="chatty")(torch.randn(8, 8))
except Exception:
    print("caught")
"""
SLOW = """
import torch
import time
from torch._dynamo import register_backend

@register_backend
def slow(gm, example_inputs):
    time.sleep(0.4)
    for name in ("tan", "tanh", "atan"):
        if not any(node.target == name for node in gm.graph.nodes):
            return gm
    raise NotImplementedError("all three")
"""
NEEDS_MANY = """
import torch
import slow

def model(x):
    for _ in range(12):
        x = x.sin().cos()
    return x.tan().sin().tanh().sin().atan()

try:
    torch.compile(model, backend="slow")(torch.randn(8))
except Exception:
    pass
"""
NEEDS_VALUES = """
import torch

def exact(gm, inputs):
    def run(x):
        if torch.equal(x, torch.linspace(0, 1, 4096).sin()):
            raise LookupError("these very values")
        return gm(x)
    return run

torch.compile(lambda x: x.exp(), backend=exact)(torch.linspace(0, 1, 4096).sin())
"""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
FAILS = "NotImplementedError in chatty.chatty (compile): no tanh"


@pytest.mark.parametrize("no_colour", sampled(["", "1"]))
def test_each_line_has_its_row(project, no_colour):
    project.write(CHATTY, "chatty.py")
    project.write(FAILING)
    shown = in_a_terminal(project, "run", "--out", str(project.out), "failing.py", NO_COLOR=no_colour, COLUMNS="200")
    assert shown.code == 0
    assert [without_figures(row) for row in shown.rows[:10]] == [
        "minify: running failing.py",
        "chatty: imported",
        "of the script",
        "caught",
        f"minify: graph 1 (7 ops) fails: {FAILS}",
        "chatty: imported",
        "minify: reduced from 7 ops to 1",
        f"chatty: {FAILS}",
        "7 ops -> 1 (minimal) in N probes, N s in all",
        "verified: the same failure in 3 of 3 fresh interpreters; with eager it passes",
    ]
    last = f"run it with PYTHONPATH={project.folder}, where the script's own modules are{project.out}/repro.py"
    wrapped = "".join(shown.rows[10:])  # by the terminal, perhaps at a space
    assert wrapped.replace(" ", "") == last.replace(" ", "")
    assert shown.statuses[0] == "minify: loading torch"
    waiting = re.compile(r"minify: verifying the repro: interpreter 1 of 3, \d+ s")
    assert any(map(waiting.fullmatch, shown.statuses))
    assert bool(COLOUR.search(shown.written)) is not bool(no_colour)


def test_a_narrower_window_and_an_interrupt(project):
    project.write(SLOW, "slow.py")
    project.write(NEEDS_MANY)
    done = set()

    def meanwhile(shown, terminal):
        probes = [status for status in shown.statuses if " left, " in status]
        if probes and "narrowed" not in done:
            done.add("narrowed")
            shown.resize(terminal, 60)
        if len(probes) > 6 and "interrupted" not in done:
            done.add("interrupted")
            os.write(terminal, b"\x03")

    shown = in_a_terminal(project, "run", "--verify", "1", "--out", "../out", "failing.py", meanwhile=meanwhile)
    assert shown.code == 3 and done == {"narrowed", "interrupted"}
    assert "minify: interrupted: ending the search" in shown.rows
    assert not [row for row in shown.rows if row.startswith(("minify: reducing", "minify: verifying"))]
    assert shown.rows[-1].endswith("out/repro.py") and shown.screen.cursor.x == 0


def test_nothing_is_left_of_the_status_line_when_a_run_ends_early(project):
    project.write("print('nothing here')")
    shown = in_a_terminal(project, "run", "--out", "../out", "failing.py", columns=60)
    assert shown.code == 1
    assert shown.rows[:2] == ["minify: running failing.py", "nothing here"]
    assert shown.rows[2].startswith("minify: ") and shown.statuses == ["minify: loading torch"]


def test_a_pipe_gets_a_line_for_each_phase(project):
    project.write(CHATTY, "chatty.py")
    project.write(f"import time\ntime.sleep(10.5)\n{FAILING}")
    done = project.minify("run", "--verify", "1", "--out", project.out, "failing.py")
    assert done.code == 0 and done.stdout == "of the script\ncaught\n"
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    timed = re.compile(r": (.*, )?\d+ s( \(.*\))?$")
    assert "minify: running failing.py: 10 s" in done.stderr.splitlines()
    assert [line for line in done.says if not timed.search(line)] == [
        "loading torch",
        "running failing.py",
        f"graph 1 (7 ops) fails: {FAILS}",
        "reducing",
        "reduced from 7 ops to 1",
        "verifying the repro",
        "trying the repro with the backends eager and aot_eager",
        "writing the reports",
    ]


@pytest.mark.parametrize("answer", sampled(["y", "n"]))
def test_values_are_asked_for(project, answer):
    project.write(NEEDS_VALUES)
    arguments = ["run", "--verify", "1", "--out", str(project.out), "failing.py"]
    question = "minify: Put inputs.safetensors into bundle.zip, for those who get that? [y/N]:"

    def meanwhile(shown, terminal):
        if shown.rows[-1:] == [question]:
            os.write(terminal, f"{answer}\n".encode())

    shown = in_a_terminal(project, *arguments, meanwhile=meanwhile)
    assert shown.code == 0 and f"{question} {answer}" in shown.rows, shown.rows
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert ("inputs.safetensors" in bundle.namelist()) is (answer == "y")


def test_for_programs_and_for_the_curious(project):
    project.write(CHATTY, "chatty.py")
    done = project.run(FAILING, given=["--json", "--verbose"])
    lines = done.stdout.splitlines()
    assert lines[0] == "of the script" and json.loads(lines[-1]) == done.result
    probes = [line for line in done.says if line.startswith("probe ")]
    assert len(probes) == done.result["probes"]["total"]
    assert re.fullmatch(r"probe 1: check, 7 ops: SAME in [\d.]+ s", probes[0]) and not COLOUR.search(done.stderr)


def test_programs_are_told_why_there_is_no_result(minify):
    done = minify("print('nothing here')", given=["--json"])
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.code == 1 and told["status"] == "nothing" and told["reason"] in done.stderr


def test_completion(project):
    words = {"COMP_WORDS": "minify ru", "COMP_CWORD": "1", "_MINIFY_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "minifier"],
        env=project.environment(**words),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "plain,run", done.stderr


@pytest.mark.parametrize("command", ["run", "reduce", "check", "report", "backends", "passes"])
def test_help_is_there(project, command):
    done = project.minify(command, "--help")
    assert done.code == 0 and "Usage: minify" in done.stdout
